// The shapes and texts of an SVG element as marks of a scene.

import { fontOf, visible, type Mark } from "./scene";

/** The marks of a drawing, relative to `origin`. */
export function svgMarks(svg: SVGSVGElement, origin: DOMRect, opacity: number): Mark[] {
  const marks: Mark[] = [];
  const onPage = new DOMMatrix().translate(-origin.x, -origin.y);
  for (const element of svg.querySelectorAll<SVGGraphicsElement>("path,line,rect,circle,text")) {
    const style = getComputedStyle(element);
    const seen = opacityOf(element, svg) * opacity;
    const matrix = element.getScreenCTM();
    if (!matrix || style.visibility === "hidden" || !seen || element.closest("defs")) continue;
    const at = onPage.multiply(matrix);
    if (element instanceof SVGTextElement) {
      marks.push(...texts(element, at, seen));
      continue;
    }
    const [fill, stroke] = [painted(style.fill, style.fillOpacity), painted(style.stroke, style.strokeOpacity)];
    const line = parseFloat(style.strokeWidth);
    const dash = style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(",").map(parseFloat);
    if (fill || stroke) marks.push({ kind: "path", d: outline(element), matrix: at, fill, stroke, line, dash, opacity: seen });
  }
  return marks;
}

const painted = (colour: string, opacity: string): string | null => (parseFloat(opacity) ? visible(colour) : null);

/** The product of the opacities of an element and its groups. */
function opacityOf(element: Element, svg: SVGSVGElement): number {
  let product = 1;
  for (let one: Element | null = element; one && one !== svg; one = one.parentElement)
    product *= parseFloat(getComputedStyle(one).opacity);
  return product;
}

function texts(element: SVGTextElement, matrix: DOMMatrix, opacity: number): Mark[] {
  const marks: Mark[] = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let start = 0;
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent!.replace(/\s+/g, " ");
    if (!text.trim() || start >= element.getNumberOfChars()) continue;
    const style = getComputedStyle(walker.currentNode.parentElement!);
    const font = fontOf(style);
    const { x, y } = element.getStartPositionOfChar(start);
    start += text.length;
    const centred = /middle|central/.test(style.dominantBaseline);
    const down = centred ? font.size * 0.35 : 0;
    marks.push({ kind: "text", text, x, y: y + down, fill: style.fill, matrix, font, opacity });
  }
  return marks;
}

function outline(element: SVGGraphicsElement): string {
  const number = (name: string) => parseFloat(element.getAttribute(name) ?? "0") || 0;
  if (element instanceof SVGPathElement) return element.getAttribute("d") ?? "";
  if (element instanceof SVGLineElement) return `M${number("x1")},${number("y1")}L${number("x2")},${number("y2")}`;
  if (element instanceof SVGCircleElement) {
    const [x, y, r] = [number("cx"), number("cy"), number("r")];
    return `M${x - r},${y}a${r},${r},0,1,0,${2 * r},0a${r},${r},0,1,0,${-2 * r},0Z`;
  }
  const [x, y, w, h] = ["x", "y", "width", "height"].map(number);
  const r = Math.min(number("rx"), w / 2, h / 2);
  const turn = (dx: number, dy: number) => `a${r},${r},0,0,1,${dx * r},${dy * r}`;
  return `M${x + r},${y}h${w - 2 * r}${turn(1, 1)}v${h - 2 * r}${turn(-1, 1)}h${2 * r - w}${turn(-1, -1)}v${2 * r - h}${turn(1, -1)}Z`;
}
