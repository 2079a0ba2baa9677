// A part of the page as a list of rectangles, paths, texts and images, which can be written as SVG or drawn as PNG.

import { prepare } from "../drawing/matrix";
import { paintedOn, type Label } from "../drawing/painted";
import { svgMarks } from "./shapes";

export interface Font {
  size: number;
  family: string;
  weight: string;
  style: string;
}

interface Common {
  opacity: number;
}
export interface Rectangle extends Common {
  kind: "rectangle";
  x: number;
  y: number;
  width: number;
  height: number;
  radius?: number;
  fill?: string | null;
  stroke?: string | null;
  line?: number;
  dashed?: boolean;
}
/** A text; its position is on the baseline, before `matrix`. */
export interface Text extends Common {
  kind: "text";
  text: string;
  full?: string;
  x: number;
  y: number;
  align?: "left" | "right" | "center";
  rightToLeft?: boolean;
  matrix?: DOMMatrix;
  font: Font;
  fill: string;
  struck?: boolean;
}
export interface Shape extends Common {
  kind: "path";
  d: string;
  matrix: DOMMatrix;
  fill: string | null;
  stroke: string | null;
  line: number;
  dash: number[];
}
export interface Image extends Common {
  kind: "image";
  canvas: HTMLCanvasElement;
  x: number;
  y: number;
  width: number;
  height: number;
}
export type Mark = Rectangle | Text | Shape | Image;

export interface Scene {
  width: number;
  height: number;
  background: string;
  marks: Mark[];
}

interface State {
  opacity: number;
  grey: boolean;
  clip: DOMRect | null;
}

const MARGIN = 18;
const measure = document.createElement("canvas").getContext("2d")!;

export const cssFont = ({ style, weight, size, family }: Font): string => `${style} ${weight} ${size}px ${family}`;

export const fontOf = (style: CSSStyleDeclaration): Font => ({
  size: parseFloat(style.fontSize),
  family: style.fontFamily,
  weight: style.fontWeight,
  style: style.fontStyle,
});

/** A colour that can be seen. */
export const visible = (colour: string): string | null =>
  !colour || colour === "none" || colour === "transparent" || /,\s*0\)$|\/ 0\)$/.test(colour) ? null : colour;

/** How far the baseline is below the top of a line of this height. */
export function baseline(font: Font, height: number): number {
  measure.font = cssFont(font);
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = measure.measureText("x");
  return (height - up - down) / 2 + up;
}

export const widthOf = (text: string, font: Font): number => {
  measure.font = cssFont(font);
  return measure.measureText(text).width;
};

export class Reader {
  readonly marks: Mark[] = [];
  private readonly origin: DOMRect;
  private right = 0;

  constructor(private readonly root: HTMLElement) {
    this.origin = root.getBoundingClientRect();
  }

  read(): Scene {
    const background = visible(getComputedStyle(this.root).backgroundColor) ?? "#fff";
    for (const child of this.root.childNodes) this.node(child, { opacity: 1, grey: false, clip: null });
    // What can be scrolled sideways is shown in full.
    const width = Math.max(this.origin.width, this.right + MARGIN - this.origin.x);
    return { width: Math.ceil(width), height: Math.ceil(this.origin.height), background, marks: this.marks };
  }

  private node(node: Node, state: State): void {
    if (node instanceof window.Text) this.text(node, state);
    else if (node instanceof HTMLElement || node instanceof SVGSVGElement) this.element(node, state);
  }

  private element(element: HTMLElement | SVGSVGElement, outer: State): void {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (
      !element.checkVisibility({ visibilityProperty: true }) ||
      !box.width ||
      element.matches("[data-noexport], .hidden, [type=range]")
    )
      return;
    if (outer.clip && (box.bottom < outer.clip.top || box.top > outer.clip.bottom)) return;
    const state = {
      opacity: outer.opacity * parseFloat(style.opacity),
      grey: outer.grey || style.filter.includes("grayscale"),
      clip: style.overflowY === "visible" ? outer.clip : box,
    };
    if (!outer.clip) this.right = Math.max(this.right, box.right);
    // An inline element has a box on each of its lines.
    for (const one of style.display === "inline" ? element.getClientRects() : [box]) this.box(style, one, state);
    if (element instanceof SVGSVGElement) {
      this.marks.push(...svgMarks(element, this.origin, state.opacity));
      return;
    }
    if (element instanceof HTMLCanvasElement) this.canvas(element, box, state);
    else if (
      element instanceof HTMLInputElement ||
      element instanceof HTMLSelectElement ||
      element instanceof HTMLTextAreaElement
    )
      this.control(element, style, box, state);
    else for (const child of element.childNodes) this.node(child, state);
  }

  /** Background, border and outline. */
  private box(style: CSSStyleDeclaration, box: DOMRect, { opacity }: State): void {
    const fill = visible(style.backgroundColor);
    const sides = (["Top", "Right", "Bottom", "Left"] as const).map((side) => ({
      line: style[`border${side}Style`] === "none" ? 0 : parseFloat(style[`border${side}Width`]),
      colour: visible(style[`border${side}Color`]),
      dashed: style[`border${side}Style`] === "dashed",
    }));
    const even = sides.every((one) => one.line === sides[0].line);
    const radius = Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.width / 2, box.height / 2);
    const rectangle = (grow: number, fill: string | null, stroke: string | null, line: number, dashed = false) =>
      this.marks.push({
        kind: "rectangle",
        ...{ x: box.x - this.origin.x - grow, y: box.y - this.origin.y - grow },
        ...{ width: Math.max(0, box.width + 2 * grow), height: Math.max(0, box.height + 2 * grow) },
        ...{ radius: Math.max(0, radius + grow), fill, stroke, line, dashed, opacity },
      });
    const stroke = even && sides[0].line ? sides[0].colour : null;
    if (fill || stroke) rectangle(stroke ? -sides[0].line / 2 : 0, fill, stroke, sides[0].line, sides[0].dashed);
    if (!even) this.edges(box, sides, opacity);
    if (style.outlineStyle === "solid") {
      const line = parseFloat(style.outlineWidth);
      rectangle(parseFloat(style.outlineOffset) + line / 2, null, visible(style.outlineColor), line);
    }
  }

  private edges(box: DOMRect, sides: { line: number; colour: string | null; dashed: boolean }[], opacity: number): void {
    const [x, y] = [box.x - this.origin.x, box.y - this.origin.y];
    const { width, height } = box;
    sides.forEach(({ line, colour }, i) => {
      if (!line || !colour) return;
      const at = [
        [x, y, width, line],
        [x + width - line, y, line, height],
        [x, y + height - line, width, line],
        [x, y, line, height],
      ][i];
      this.marks.push({ kind: "rectangle", x: at[0], y: at[1], width: at[2], height: at[3], fill: colour, opacity });
    });
  }

  private canvas(canvas: HTMLCanvasElement, box: DOMRect, { opacity, grey }: State): void {
    const painted = paintedOn(canvas);
    const copy = document.createElement("canvas");
    const context = prepare(copy, box.width, box.height, 2);
    if (grey) context.filter = "grayscale(1)";
    if (painted) painted.paint(context);
    else context.drawImage(canvas, 0, 0, box.width, box.height);
    const [x, y] = [box.x - this.origin.x, box.y - this.origin.y];
    this.marks.push({ kind: "image", canvas: copy, x, y, width: box.width, height: box.height, opacity });
    for (const label of painted?.labels ?? []) this.label(label, x, y, opacity);
  }

  private label({ text, full, x, y, angle = 0, align, font, fill }: Label, left: number, top: number, opacity: number): void {
    const [size, ...family] = font.split(" ");
    const own = { size: parseFloat(size), family: family.join(" "), weight: "400", style: "normal" };
    const matrix = new DOMMatrix().translate(left + x, top + y).rotate((angle * 180) / Math.PI);
    this.marks.push({ kind: "text", text, full, x: 0, y: own.size * 0.35, align, matrix, font: own, fill, opacity });
  }

  private control(
    control: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement,
    style: CSSStyleDeclaration,
    box: DOMRect,
    { opacity }: State,
  ): void {
    const font = fontOf(style);
    const checkable = control.type === "checkbox" || control.type === "radio";
    const text = checkable
      ? (control as HTMLInputElement).checked
        ? "☑"
        : "☐"
      : control instanceof HTMLSelectElement
        ? (control.selectedOptions[0]?.text ?? "")
        : control.value;
    const x = box.x - this.origin.x + (checkable ? 0 : parseFloat(style.paddingLeft) || 0);
    const y = box.y - this.origin.y + baseline(font, box.height);
    this.marks.push({ kind: "text", text, x, y, font, fill: style.color, opacity });
  }

  /** A text node, line by line. */
  private text(node: globalThis.Text, { opacity, clip }: State): void {
    const parent = node.parentElement!;
    if (!node.data.trim()) return;
    const style = getComputedStyle(parent);
    const font = fontOf(style);
    const rightToLeft = style.direction === "rtl";
    for (const { text, box } of linesOf(node)) {
      if (clip && (box.bottom > clip.bottom + 2 || box.top < clip.top - 2 || box.left > clip.right)) continue;
      const room = clip && box.right > clip.right + 1 ? clip.right - box.left : Infinity;
      this.marks.push({
        kind: "text",
        text: shorten(text, font, room),
        x: (rightToLeft ? box.right : box.left) - this.origin.x,
        y: box.top - this.origin.y + baseline(font, box.height),
        ...{ font, fill: style.color, opacity, rightToLeft },
        struck: style.textDecorationLine.includes("line-through"),
      });
    }
  }
}

export function shorten(text: string, font: Font, room: number): string {
  if (room === Infinity || widthOf(text, font) <= room) return text;
  let short = text;
  while (short.length > 1 && widthOf(`${short}…`, font) > room) short = short.slice(0, -1);
  return `${short}…`;
}

function linesOf(node: globalThis.Text): { text: string; box: DOMRect }[] {
  const range = document.createRange();
  range.selectNodeContents(node);
  const whole = [...range.getClientRects()].filter((one) => one.width);
  const clean = (text: string) => text.replace(/\s+/g, " ");
  if (whole.length <= 1) return whole.map((box) => ({ text: clean(node.data).trim(), box: trimmed(node, box) }));
  const lines: { text: string; box: DOMRect }[] = [];
  for (let i = 0; i < node.length; i++) {
    range.setStart(node, i);
    range.setEnd(node, i + 1);
    const box = range.getClientRects()[0];
    if (!box?.width) continue;
    const last = lines.at(-1);
    if (last && Math.abs(last.box.top - box.top) < box.height / 2) {
      last.text += node.data[i];
      last.box = new DOMRect(last.box.x, last.box.y, box.right - last.box.x, last.box.height);
    } else lines.push({ text: node.data[i], box });
  }
  return lines.map(({ text, box }) => ({ text: clean(text).trimEnd(), box })).filter((line) => line.text.trim());
}

/** The box of a line without the space at its start. */
function trimmed(node: globalThis.Text, box: DOMRect): DOMRect {
  const start = node.data.search(/\S/);
  if (start <= 0) return box;
  const range = document.createRange();
  range.setStart(node, start);
  range.setEnd(node, start + 1);
  const first = range.getClientRects()[0] ?? box;
  return new DOMRect(first.left, box.top, box.right - first.left, box.height);
}
