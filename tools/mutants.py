# SPDX-License-Identifier: Apache-2.0
"""mutants.py: the small changes of a C source that tools/mutate tries, and the source with all of them behind switches.

A source is read as tokens, not as C: the layout of our sources (.clang-format) tells operators with one operand from
those with two. What the compiler must know stays as it is: static initialisers, case labels, enums, sizes of arrays,
macros; and asserts. A change that is misunderstood does not compile, and tools/mutate leaves it out.
"""
import re

# ------------------------------------------------------------------------------------------------ the text of a file

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
  | (?P<text>L?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<number>(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*(?![\w.]))
  | (?P<float>[\d.][\w.]*)
  | (?P<name>\w+)
  | (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
""", re.X | re.S | re.M)
PAIRS = {")": "(", "]": "[", "}": "{"}
STRENGTH = {"*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, "<=": 7, ">": 7, ">=": 7, "==": 6,
            "!=": 6, "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1, "?": 0, ":": 0}
ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-",
         "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "+=": "-=", "-=": "+=",
         "|=": "&=", "&=": "|="}
WORDS = {"if", "else", "for", "while", "do", "switch", "case", "default", "return", "break", "continue", "goto",
         "sizeof", "static", "const", "struct", "enum", "union"}
FIXED = {"_Static_assert", "assert", "UINT64_C", "INT64_C", "UINT32_C", "offsetof", "sizeof", "_Alignof", "va_arg"}
STATUSES = {"vram_status"}
NUMBERS = {"int", "unsigned", "uint64_t", "uint32_t", "int64_t", "uint8_t", "uint16_t", "size_t", "double"}


class Token:
    def __init__(self, kind, text, start):
        self.kind, self.text, self.start, self.end = kind, text, start, start + len(text)
        self.match = None  # the index of the other bracket


class Source:
    """A file as tokens, and the places in it that can be changed."""

    def __init__(self, path, text):
        self.path, self.text, self.tokens = path, text, []
        at = 0
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                raise ValueError(f"{path}:{text.count(chr(10), 0, at) + 1}: not understood")
            if found.lastgroup != "skip":
                self.tokens.append(Token(found.lastgroup, found.group(), at))
            at = found.end()
        self.match_brackets()
        self.lines = text.split("\n")

    def match_brackets(self):
        open_ones = []
        for i, token in enumerate(self.tokens):
            if token.kind != "op":
                continue
            if token.text in "([{":
                open_ones.append(i)
            elif token.text in PAIRS and open_ones:
                token.match = open_ones.pop()
                self.tokens[token.match].match = i

    def word(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def line_of(self, at):
        return self.text.count("\n", 0, at) + 1

    def bodies(self):
        """(name, words of its type, first, last) of every function: the tokens of its braces."""
        i, begin = 0, 0
        while i < len(self.tokens):
            token = self.tokens[i]
            if token.text == "{" and token.kind == "op":
                if token.match is None:
                    return
                if self.word(i - 1) == ")" and self.tokens[i - 1].match:
                    name = self.tokens[i - 1].match - 1
                    kind = [t.text for t in self.tokens[begin:name]]
                    yield self.word(name), [w for w in kind if w not in ("static", "inline", "const", "extern")], i, \
                        token.match
                i = token.match
                begin = i + 1
            elif token.text in ("(", "[") and token.match:
                i = token.match
            elif token.text == ";":
                begin = i + 1
            i += 1

    def is_binary(self, i):
        """Whether an operator has two operands: the layout of the sources shows it."""
        token = self.tokens[i]
        before, after = self.text[token.start - 1:token.start], self.text[token.end:token.end + 1]
        return before.isspace() and after.isspace()

    def is_literal(self, i):
        """Whether the brace at i begins a compound literal, (struct x){...}."""
        opened = self.tokens[i - 1].match if self.word(i - 1) == ")" else None
        return opened is not None and self.tokens[opened - 1].kind == "op" and self.word(opened - 1) != ")"

    def left_of(self, i, strength):
        """The first token of the left operand of the operator at i."""
        j = i - 1
        while j >= 0:
            token = self.tokens[j]
            if token.kind == "op":
                if token.text in (")", "]") or token.text == "}" and token.match and self.is_literal(token.match):
                    j = token.match - 1
                    continue
                if token.text in "([{};,?:" or token.text in ASSIGNS:
                    break
                if self.is_binary(j) and STRENGTH.get(token.text, 99) < strength:
                    break
            elif token.text in ("return", "case", "else", "do"):
                break
            j -= 1
        return j + 1

    def right_of(self, i, strength):
        """The last token of the right operand."""
        j = i + 1
        while j < len(self.tokens):
            token = self.tokens[j]
            if token.kind == "op":
                if token.text in ("(", "[") or token.text == "{" and self.is_literal(j):
                    j = token.match + 1
                    continue
                if token.text in ")]};,{" or strength >= 0 and (token.text in ":?" or token.text in ASSIGNS):
                    break
                if self.is_binary(j) and STRENGTH.get(token.text, 99) <= strength:
                    break
            j += 1
        return j - 1

    def fixed_parts(self, first, last):
        """Token indices in [first, last] that the compiler must know, or that say nothing: not to be changed."""
        fixed, i = set(), first
        while i <= last:
            word, end = self.word(i), None
            if word in FIXED and self.word(i + 1) == "(":
                end = self.tokens[i + 1].match
            elif word in ("static", "case", "_Alignas") or word == "enum" and self.word(i + 1) == "{":
                end = i
                while end < last and self.word(end) not in ((":",) if word == "case" else (";",)):
                    end = self.tokens[end].match + 1 if self.word(end) in ("{", "(") else end + 1
            elif word == "[" and self.is_size(i):
                end = self.tokens[i].match
            elif word == "{" and self.word(i + 1) == "0" and self.word(i + 2) == "}":
                end = i + 2
            if end is not None and end >= i:
                fixed.update(range(i, end + 1))
                i = end
            i += 1
        return fixed

    def is_size(self, i):
        """Whether the bracket at i holds the size of an array that is declared: type name[SIZE], *name[SIZE]."""
        before = self.word(i - 2)
        return self.tokens[i - 1].kind == "name" and (before in ("*", ",") or re.fullmatch(r"\w+", before) is not None
                                                      and before not in ("return", "else"))

    def statements(self, first, last):
        """(first, last) tokens of every statement that is an expression; without its semicolon."""
        header = first  # the end of a for (...)
        for i in range(first + 1, last):
            token, before = self.tokens[i], self.word(i - 1)
            if token.text == "for":
                header = self.tokens[i + 1].match
            if i < header:
                continue
            if before not in ("{", "}", ";", "else") and not (before == ":" and self.is_label(i - 1)):
                continue
            if token.kind != "name" and token.text not in ("(", "*", "++", "--") or token.text in WORDS:
                continue
            end, opened = i, False
            while end < last and self.word(end) != ";":
                if self.word(end) in PAIRS or self.word(end) == "{" and not self.is_literal(end):
                    opened = True  # a block, or a part of an initializer
                    break
                end = self.tokens[end].match + 1 if self.word(end) in ("(", "[", "{") else end + 1
            if not opened and end > i:
                yield i, end - 1

    def is_label(self, i):
        return self.tokens[i - 1].kind == "name" and (self.word(i - 2) in (";", "{", "}", "case") or
                                                      self.word(i - 1) == "default")

    # ------------------------------------------------------------------------------------------------- what is changed

    def mutants(self):
        """Every mutant of the file. `new` has {M}, its switch, {P}, the text as it was, and {O}, the same with
        the other mutants in it."""
        found = []
        for function, kind, first, last in self.bodies():
            fixed = self.fixed_parts(first, last)
            for i in range(first + 1, last):
                if i not in fixed:
                    found += self.at(i, kind)
            for begin, end in self.statements(first, last):
                if begin not in fixed:
                    found += self.of_statement(begin, end)
            if "void" in kind and "*" not in kind:
                at = self.tokens[first].end
                found.append(self.make(at, at, "return", f"{function} returns at once", " if ({M}) return;", first))
            elif STATUSES & set(kind):
                at = self.tokens[first].end
                found.append(self.make(at, at, "return", f"{function} returns VRAM_OK at once",
                                       " if ({M}) return VRAM_OK;", first))
        return found

    def make(self, start, end, kind, change, new, i):
        line = self.line_of(self.tokens[i].start)
        return {"file": self.path, "line": line, "text": code_of(self.lines[line - 1]), "kind": kind,
                "change": change, "start": start, "end": end, "last_line": self.line_of(end), "new": new}

    def over(self, first, last, kind, change, new, i):
        return self.make(self.tokens[first].start, self.tokens[last].end, kind, change, new, i)

    def at(self, i, function):
        """The mutants at one token."""
        token, word = self.tokens[i], self.word(i)
        if token.kind == "number":
            digits = re.match(r"0[xX][0-9a-fA-F]+|\d+", word).group()
            value = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" and len(digits) > 1 else 10)
            new = f"{value + 1}{word[len(digits):]}"
            return [self.over(i, i, "constant", f"{word} to {new}", f"({{M}} ? {new} : {{O}})", i)]
        if word in ("true", "false"):
            new = "false" if word == "true" else "true"
            return [self.over(i, i, "constant", f"{word} to {new}", f"({{M}} ? {new} : {{O}})", i)]
        if word in ("if", "while") and self.word(i + 1) == "(":
            first, last = i + 2, self.tokens[i + 1].match - 1
            if word == "if":
                return [self.over(first, last, "negate", "condition negated", "({M} ? !({P}) : !!({O}))", first)]
            return [self.over(first, last, "negate", "loop skipped", "(!{M} && ({O}))", first)]
        if word in ("break", "continue") or word == "goto":
            last = i if word != "goto" else i + 1
            return [self.over(i, last, "drop", f"{word} left out", "if (!{M}) {O}", i)]
        if word == "return" and self.word(i + 1) != ";":
            return self.of_return(i, function)
        if token.kind == "op" and word in SWAPS and (self.is_binary(i) or word in ("&&", "||")):
            return self.of_operator(i, word)
        if token.kind == "op" and word == "?":
            first = self.left_of(i, 0)
            return [self.over(first, i - 1, "negate", "condition negated", "({M} ? !({P}) : !!({O}))", i)]
        return []

    def of_operator(self, i, word):
        strength = STRENGTH.get(word, -1)
        first, last = self.left_of(i, strength), self.right_of(i, strength)
        if not first < i < last + 1 or last == i:
            return []
        kind = "compare" if strength in (6, 7) else "logic" if strength in (1, 2) else "arithmetic"
        start, end = self.tokens[first].start, self.tokens[last].end
        token = self.tokens[i]
        swapped = self.text[start:token.start] + SWAPS[word] + self.text[token.end:end]
        new = f"({{M}} ? ({escaped(swapped)}) : ({{O}}))"
        return [self.over(first, last, kind, f"{word} to {SWAPS[word]}", new, i)]

    def of_return(self, i, function):
        last = i + 1
        while self.word(last) != ";":
            last = self.tokens[last].match + 1 if self.word(last) in ("(", "[", "{") else last + 1
        first, last = i + 1, last - 1
        value = self.text[self.tokens[first].start:self.tokens[last].end]
        if "*" in function:
            new, change = "NULL", "returns NULL"
        elif STATUSES & set(function):
            new, change = "VRAM_OK", "returns VRAM_OK"
        elif "bool" in function:
            new, change = "!({P})", "returns the contrary"
        elif NUMBERS & set(function):
            new, change = "({P}) + 1", "returns one more"
        else:
            return []
        if value in ("true", "false", new) or re.fullmatch(r"\d+", value):
            return []  # the same as another mutant, or as none
        return [self.over(first, last, "return", change, f"({{M}} ? {new} : ({{O}}))", i)]

    def of_statement(self, first, last):
        """A call, an assignment or a count that is left out."""
        words = [t.text for t in self.tokens[first:last + 1]]
        depth, assigns = 0, False
        for word in words:
            depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
            assigns = assigns or depth == 0 and word in ASSIGNS
        new = "({M} ? (void)0 : (void)({O}))"
        if assigns:
            declares = self.tokens[first].kind == "name" and (
                self.tokens[first + 1].kind == "name" or
                words[1] == "*" and self.text[self.tokens[first + 1].end] != " ")
            if declares:
                return []
            return [self.over(first, last, "drop", "assignment left out", new, first)]
        if "++" in (words[0], words[-1]) or "--" in (words[0], words[-1]):
            return [self.over(first, last, "drop", "count left out", new, first)]
        if words[-1] != ")":
            return []
        call = first + (3 if words[:3] == ["(", "void", ")"] else 0)
        name = self.word(call)
        if self.tokens[call].kind != "name" or self.word(call + 1) not in ("(", "->", ".", "[") or name in FIXED \
                or self.word(call + 1) == "(" and self.tokens[call + 1].match != last or name.isupper():
            return []  # a macro may be a statement
        kind = "unlock" if "unlock" in name or name.endswith("_leave") else "drop"
        return [self.over(first, last, kind, f"call of {name} left out", new, first)]


def code_of(line):
    """A line without its comments, which may change."""
    return re.sub(r'("(?:\\.|[^"\\])*")|\s*(?:/\*.*?(?:\*/|$)|//.*$)', lambda found: found.group(1) or "", line).strip()


def one_line(text):
    return " ".join(line.strip() for line in text.split("\n"))


def escaped(text):
    """Text as a part of a format string, on one line."""
    return one_line(text).replace("{", "{{").replace("}", "}}")


def identify(mutants):
    """Gives each mutant a key that stays when other lines change: file, text of the line, change, which of these."""
    seen = {}
    for mutant in mutants:
        key = f"{mutant['file']} | {mutant['text']} | {mutant['change']}"
        seen[key] = seen.get(key, 0) + 1
        mutant["key"] = key if seen[key] == 1 else f"{key} | {seen[key]}"
    return mutants


def parts(rest):
    """(text of the line, change) of a key without its file."""
    words = rest.split(" | ")
    if len(words) > 2 and words[-1].isdigit():
        words.pop()
    return " | ".join(words[:-1]), words[-1]


def apart(mutants):
    """Without those whose range crosses another's: the text was not understood there."""
    kept, ends = [], []
    for mutant in sorted(mutants, key=lambda m: (m["start"], -m["end"])):
        ends = [end for end in ends if end > mutant["start"]]
        if all(mutant["end"] <= end for end in ends):
            kept.append(mutant)
            ends.append(mutant["end"])
    return kept


def render(text, mutants):
    """The text with all mutants behind their switches. No line is added, so that messages name the true one."""
    def part(start, end, inside):
        out, at = "", start
        while inside:
            outer, within = inside.pop(0), []
            while inside and inside[0]["end"] <= outer["end"] and outer["start"] < outer["end"]:
                within.append(inside.pop(0))
            old = part(outer["start"], outer["end"], within)
            new = outer["new"].format(M=f"MUTANT({outer['number']})", O=old,
                                      P=one_line(text[outer["start"]:outer["end"]]))
            out += text[at:outer["start"]] + new
            at = outer["end"]
        return out + text[at:end]
    return part(0, len(text), apart(mutants))
