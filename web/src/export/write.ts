// A scene as an SVG file, with its text as text, and as a PNG file at twice the size.

import { cssFont, type Mark, type Scene } from "./scene";

const SCALE = 2;

// Bytes of a tokenizer may be control characters, which XML cannot hold.
const UNWRITABLE = /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu;

const escape = (text: string): string =>
  text.replace(UNWRITABLE, "�").replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]!);

const short = (value: number): string => String(Math.round(value * 100) / 100);

type Attributes = Record<string, string | number | null | undefined | false>;

function tag(name: string, attributes: Attributes, inside = ""): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "")
    .map(([key, value]) => ` ${key}="${typeof value === "number" ? short(value) : escape(String(value))}"`)
    .join("");
  return inside ? `<${name}${written}>${inside}</${name}>` : `<${name}${written}/>`;
}

const transform = (matrix?: DOMMatrix): string | null =>
  matrix && !matrix.isIdentity
    ? `matrix(${[matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f].map((one) => Math.round(one * 1e4) / 1e4).join(",")})`
    : null;

const ANCHORS = { left: "", right: "end", center: "middle" };

function written(mark: Mark): string {
  const opacity = mark.opacity < 1 ? mark.opacity : null;
  if (mark.kind === "rectangle") {
    const { x, y, width, height, radius, fill, stroke, line, dashed } = mark;
    const ring = stroke ? { stroke, "stroke-width": line, "stroke-dasharray": dashed && "4 3" } : {};
    return tag("rect", { x, y, width, height, rx: radius || null, fill: fill ?? "none", ...ring, opacity });
  }
  if (mark.kind === "path") {
    const { d, matrix, fill, stroke, line, dash } = mark;
    const pen = stroke ? { stroke, "stroke-width": line, "stroke-dasharray": dash.join(" ") } : {};
    return tag("path", { d, transform: transform(matrix), fill: fill ?? "none", ...pen, opacity });
  }
  if (mark.kind === "image") {
    const { x, y, width, height, canvas } = mark;
    return tag("image", { x, y, width, height, opacity, href: canvas.toDataURL("image/png") });
  }
  const { text, full, x, y, align, matrix, font, fill, rightToLeft, struck } = mark;
  const type = {
    "font-family": font.family,
    "font-size": font.size,
    "font-weight": font.weight !== "400" && font.weight,
    "font-style": font.style !== "normal" && font.style,
  };
  const more = {
    "text-anchor": ANCHORS[align ?? "left"],
    direction: rightToLeft && "rtl",
    "text-decoration": struck && "line-through",
    "xml:space": "preserve",
  };
  const title = full && full !== text ? tag("title", {}, escape(full)) : "";
  return tag("text", { x, y, transform: transform(matrix), fill, ...type, ...more, opacity }, title + escape(text));
}

export function asSvg(scene: Scene, title: string, description: string): Blob {
  const { width, height, background, marks } = scene;
  const head = tag("title", {}, escape(title)) + tag("desc", {}, escape(description));
  const body = tag("rect", { width, height, fill: background }) + marks.map(written).join("\n");
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  const svg = tag("svg", { xmlns: "http://www.w3.org/2000/svg", ...size, role: "img" }, `${head}\n${body}`);
  return new Blob([svg], { type: "image/svg+xml" });
}

export async function asPng({ width, height, background, marks }: Scene): Promise<Blob> {
  const canvas = document.createElement("canvas");
  canvas.width = width * SCALE;
  canvas.height = height * SCALE;
  const context = canvas.getContext("2d")!;
  context.scale(SCALE, SCALE);
  context.fillStyle = background;
  context.fillRect(0, 0, width, height);
  for (const mark of marks) {
    context.save();
    context.globalAlpha = mark.opacity;
    draw(context, mark);
    context.restore();
  }
  return new Promise((done, fail) =>
    canvas.toBlob(
      (blob) => (blob ? done(blob) : fail(new Error("The picture is too large for a PNG; save it as SVG."))),
      "image/png",
    ),
  );
}

function draw(context: CanvasRenderingContext2D, mark: Mark): void {
  if (mark.kind === "image") {
    context.imageSmoothingEnabled = false;
    context.drawImage(mark.canvas, mark.x, mark.y, mark.width, mark.height);
    return;
  }
  if (mark.kind === "text") {
    const { matrix } = mark;
    if (matrix) context.transform(matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f);
    context.font = cssFont(mark.font);
    context.fillStyle = mark.fill;
    context.textAlign = mark.rightToLeft ? "right" : (mark.align ?? "left");
    context.fillText(mark.text, mark.x, mark.y);
    const width = context.measureText(mark.text).width;
    if (mark.struck) context.fillRect(mark.x, mark.y - mark.font.size * 0.3, width, 1);
    return;
  }
  let path: Path2D;
  if (mark.kind === "path") {
    const { matrix } = mark;
    context.transform(matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f);
    path = new Path2D(mark.d);
    context.setLineDash(mark.dash);
  } else {
    path = new Path2D();
    path.roundRect(mark.x, mark.y, mark.width, mark.height, mark.radius);
    if (mark.dashed) context.setLineDash([4, 3]);
  }
  if (mark.fill) {
    context.fillStyle = mark.fill;
    context.fill(path);
  }
  if (mark.stroke) {
    context.strokeStyle = mark.stroke;
    context.lineWidth = mark.line ?? 1;
    context.stroke(path);
  }
}
