/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion.c: `vram completion SHELL`: completion scripts written from the table of verbs. The
 * copies in completions/ come from here too; a test compares them.
 *
 * Scripts go to a stream rather than straight to stdout because --json wraps them in a string.
 */
#include "help.h"
#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text inside a shell's single quotes; characters of `special` get a backslash. */
static void put_escaped(FILE *to, const char *text, const char *special, const char *quote) {
    for (; *text != 0; text++) {
        if (*text == '\'') {
            fputs(quote, to);
        } else {
            fprintf(to, "%s%c", strchr(special, *text) != NULL ? "\\" : "", *text);
        }
    }
}

/* What may be offered for a flag's argument: all that is accepted, else what is likely. */
static const char *offered(const struct flag *flag) {
    return flag->choices != NULL ? flag->choices : flag->hints;
}

/* The verbs as one list of words, for the first argument and for `vram help`. */
static void put_verb_names(FILE *to) {
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        fprintf(to, "%s%s", i > 0 ? " " : "", verb_table[i]->name);
    }
}

static bool takes_files(const struct verb *verb) {
    return verb->operands != NULL && (strcmp(verb->operands, OPERANDS_FILES) == 0 ||
                                      strcmp(verb->operands, OPERANDS_PROGRAM) == 0);
}

static void put_operands(FILE *to, const struct verb *verb) {
    if (verb->operands != NULL && strcmp(verb->operands, OPERANDS_VERBS) == 0) {
        put_verb_names(to);
    } else if (verb->operands != NULL && !takes_files(verb)) {
        fputs(verb->operands, to);
    }
}

/* --------------------------------------------------------------------- bash */

static void bash_flag_names(FILE *to, const struct flag *flags) {
    for (; flags->name != NULL; flags++) {
        fprintf(to, "--%s ", flags->name);
    }
}

/* One case for each flag that takes an argument: what may stand behind it. */
static void bash_values(FILE *to, const struct verb *verb, const struct flag *flags) {
    for (; flags->name != NULL; flags++) {
        if (flags->value == NULL) {
            continue;
        }
        fprintf(to, "    %s,--%s", verb->name, flags->name);
        if (flags->letter != 0) {
            fprintf(to, " | %s,-%c", verb->name, flags->letter);
        }
        fprintf(to, ") words=\"%s\" ;;\n", offered(flags) != NULL ? offered(flags) : "");
    }
}

/*
 * One function for all verbs. bash splits --flag=value at the sign, hence the two looks at "=". The
 * cases of values come first: behind `--backend` nothing but a backend may be offered. It needs no
 * helper of the bash-completion package, so that it also works where that is not installed.
 */
static void put_bash(FILE *to) {
    fputs("# SPDX-License-Identifier: Apache-2.0\n"
          "# bash completion for vram, written by `vram completion bash`\n"
          "_vram() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local verb=${COMP_WORDS[1]} words= files=\n"
          "    if [[ $cur == = ]]; then\n"
          "        cur=\n"
          "    elif [[ $prev == = ]]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        words=\"",
          to);
    bash_flag_names(to, command_flags);
    put_verb_names(to);
    fputs("\"\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    case $verb,$prev in\n",
          to);
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        bash_values(to, verb_table[i], verb_table[i]->flags);
        bash_values(to, verb_table[i], common_flags);
    }
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        fprintf(to, "    %s,*) words=\"", verb_table[i]->name);
        bash_flag_names(to, verb_table[i]->flags);
        bash_flag_names(to, common_flags);
        put_operands(to, verb_table[i]);
        fprintf(to, "\"%s ;;\n", takes_files(verb_table[i]) ? " files=yes" : "");
    }
    fputs("    esac\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "    if [[ $files && $cur != -* ]]; then\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\")\n"
          "    fi\n"
          "}\n"
          "complete -F _vram vram\n",
          to);
}

/* ---------------------------------------------------------------------- zsh */

/* '(-b --backend)'{-b+,--backend=}'[help]:NAME:(words)' */
static void zsh_flags(FILE *to, const struct flag *flags) {
    for (; flags->name != NULL; flags++) {
        const char *plus = flags->value != NULL ? "+" : "", *equals = plus[0] != 0 ? "=" : "";
        fputs(" \\\n            ", to);
        if (flags->repeats && flags->letter != 0) { /* it may be given again */
            fprintf(to, "'*'{-%c%s,--%s%s}'[", flags->letter, plus, flags->name, equals);
        } else if (flags->letter != 0) {
            fprintf(to, "'(-%c --%s)'{-%c%s,--%s%s}'[", flags->letter, flags->name, flags->letter,
                    plus, flags->name, equals);
        } else {
            fprintf(to, "'--%s%s[", flags->name, equals);
        }
        put_escaped(to, flags->help, "[]:\\", "'\\''");
        fputc(']', to);
        if (flags->value != NULL) {
            fprintf(to, ":%s:(%s)", flags->value, offered(flags) != NULL ? offered(flags) : "");
        }
        fputc('\'', to);
    }
}

/* One case of the script: the flags of a verb and, where it takes any, its operands. */
static void zsh_verb(FILE *to, const struct verb *verb) {
    fprintf(to, "    %s)\n        _arguments -s", verb->name);
    zsh_flags(to, verb->flags);
    zsh_flags(to, common_flags);
    if (takes_files(verb)) {
        fputs(" \\\n            '*:file:_files'", to);
    } else if (verb->operands != NULL) {
        fputs(" \\\n            '1: :(", to);
        put_operands(to, verb);
        fputs(")'", to);
    }
    fputs(" ;;\n", to);
}

/*
 * The same file works in two ways: in a folder of fpath, where zsh calls it by its name, and
 * sourced, where it has to register itself; its last lines tell the two apart.
 */
static void put_zsh(FILE *to) {
    fputs("#compdef vram\n"
          "# SPDX-License-Identifier: Apache-2.0\n"
          "# zsh completion for vram, written by `vram completion zsh`\n"
          "_vram() {\n"
          "    local -a verbs\n"
          "    verbs=(\n",
          to);
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        fprintf(to, "        '%s:", verb_table[i]->name);
        put_escaped(to, verb_table[i]->summary, ":\\", "'\\''");
        fputs("'\n", to);
    }
    fputs("    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe -t verbs verb verbs\n"
          "        _arguments -s",
          to);
    zsh_flags(to, command_flags);
    fputs("\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $words[1] in\n",
          to);
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        zsh_verb(to, verb_table[i]);
    }
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _vram ]]; then\n"
          "    _vram \"$@\"\n"
          "else\n"
          "    compdef _vram vram\n"
          "fi\n",
          to);
}

/* --------------------------------------------------------------------- fish */

/* fish wants one line for each flag and verb; a NULL verb is the place before any. */
static void fish_flags(FILE *to, const struct flag *flags, const char *verb) {
    for (; flags->name != NULL; flags++) {
        fputs("complete -c vram -n ", to);
        if (verb != NULL) {
            fprintf(to, "'__fish_seen_subcommand_from %s'", verb);
        } else {
            fputs("__fish_use_subcommand", to);
        }
        fprintf(to, " -l %s", flags->name);
        if (flags->letter != 0) {
            fprintf(to, " -s %c", flags->letter);
        }
        if (flags->value != NULL) {
            fprintf(to, " -x -a '%s'", offered(flags) != NULL ? offered(flags) : "");
        }
        fputs(" -d '", to);
        put_escaped(to, flags->help, "\\", "\\'");
        fputs("'\n", to);
    }
}

/* The first line keeps fish from offering file names where no verb asks for one. */
static void put_fish(FILE *to) {
    fputs("# SPDX-License-Identifier: Apache-2.0\n"
          "# fish completion for vram, written by `vram completion fish`\n"
          "complete -c vram -f\n",
          to);
    fish_flags(to, command_flags, NULL);
    for (size_t i = 0; verb_table[i] != NULL; i++) {
        const struct verb *verb = verb_table[i];
        fprintf(to, "complete -c vram -n __fish_use_subcommand -a %s -d '", verb->name);
        put_escaped(to, verb->summary, "\\", "\\'");
        fputs("'\n", to);
        if (takes_files(verb)) {
            fprintf(to, "complete -c vram -n '__fish_seen_subcommand_from %s' -F\n", verb->name);
        } else if (verb->operands != NULL) {
            fprintf(to, "complete -c vram -n '__fish_seen_subcommand_from %s' -a '", verb->name);
            put_operands(to, verb);
            fputs("'\n", to);
        }
        fish_flags(to, verb->flags, verb->name);
        fish_flags(to, common_flags, verb->name);
    }
}

/* --------------------------------------------------------------------- verb */

static void put_script(FILE *to, const char *shell) {
    if (strcmp(shell, "bash") == 0) {
        put_bash(to);
    } else if (strcmp(shell, "zsh") == 0) {
        put_zsh(to);
    } else {
        put_fish(to);
    }
}

/* The JSON writer takes strings whole, so the script is gathered in memory first. */
static int print_json(const char *shell) {
    char *script = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&script, &bytes);
    if (memory == NULL) {
        return say_failure("cannot write the script", VRAM_ERR_HOST_MEMORY);
    }
    put_script(memory, shell);
    bool whole = ferror(memory) == 0;
    whole = fclose(memory) == 0 && whole;
    if (!whole) {
        free(script);
        return say_failure("cannot write the script", VRAM_ERR_HOST_MEMORY);
    }
    struct json_out json;
    output_json_begin(&json, "vram.completion/1");
    json_text(&json, "shell", shell);
    json_text(&json, "script", script);
    free(script);
    return output_json_end(&json) ? EXIT_YES : EXIT_MISUSE;
}

static int run(struct invocation *invocation) {
    if (invocation->operand_count != 1) {
        say_error("`vram completion` needs one shell: bash, zsh or fish");
        return EXIT_MISUSE;
    }
    if (invocation->json) {
        return print_json(invocation->operands[0]);
    }
    put_script(stdout, invocation->operands[0]);
    return EXIT_YES;
}

static const struct flag flags[] = {FLAG_END};

const struct verb verb_completion = {
    .name = "completion",
    .summary = "Print the completion script for a shell",
    .usage = "bash|zsh|fish [OPTION]...",
    .examples = "source <(vram completion bash)           # this bash, now\n"
                "vram completion zsh > ~/.zfunc/_vram     # zsh, in a folder of your fpath\n"
                "vram completion fish > ~/.config/fish/completions/vram.fish\n",
    .flags = flags,
    .run = run,
    .operands = "bash zsh fish",
};
