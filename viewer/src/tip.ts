// SPDX-License-Identifier: Apache-2.0
// The box beside the pointer.

import { byId } from "./dom";

export function tip(canvas: HTMLElement, x: number, y: number, content: HTMLElement): void {
  const box = byId("tip");
  const area = canvas.getBoundingClientRect();
  box.replaceChildren(content);
  box.hidden = false;
  const width = box.offsetWidth;
  const height = box.offsetHeight;
  const left = area.left + x + 14;
  const top = area.top + y + 14;
  box.style.left = `${Math.max(4, left + width > window.innerWidth - 8 ? left - width - 28 : left)}px`;
  box.style.top = `${Math.max(4, top + height > window.innerHeight - 8 ? top - height - 28 : top)}px`;
}

export function tipHide(): void {
  byId("tip").hidden = true;
}
