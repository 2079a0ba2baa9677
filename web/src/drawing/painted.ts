// What is painted on a canvas, kept so that an exported picture can repeat it with its text as text.

export interface Label {
  text: string;
  /** The text in full, if it was shortened. */
  full?: string;
  x: number;
  y: number;
  /** In radians. */
  angle?: number;
  align: "left" | "right" | "center";
  font: string;
  fill: string;
}

interface Painted {
  /** Paints everything but the labels. */
  paint: (context: CanvasRenderingContext2D) => void;
  labels: Label[];
}

const known = new WeakMap<HTMLCanvasElement, Painted>();

export const paintedOn = (canvas: HTMLCanvasElement): Painted | undefined => known.get(canvas);

/** Paints a picture and its labels, whose lines are centred at their y. */
export function paintOn(canvas: HTMLCanvasElement, context: CanvasRenderingContext2D, painted: Painted): void {
  known.set(canvas, painted);
  painted.paint(context);
  for (const label of painted.labels) paintLabel(context, label);
}

export function paintLabel(context: CanvasRenderingContext2D, { text, x, y, angle = 0, align, font, fill }: Label): void {
  context.save();
  context.font = font;
  context.fillStyle = fill;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.translate(x, y);
  context.rotate(angle);
  context.fillText(text, 0, 0);
  context.restore();
}
