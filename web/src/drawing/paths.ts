// Lines and curves as SVG paths.

type Point = [number, number];

export const polyline = (points: Point[]): string =>
  points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

/** A curve that starts and ends horizontally. */
export const bowAcross = ([x0, y0]: Point, [x1, y1]: Point): string =>
  `M${x0},${y0}C${(x0 + x1) / 2},${y0},${(x0 + x1) / 2},${y1},${x1},${y1}`;

/** A curve that starts and ends vertically. */
export const bowUp = ([x0, y0]: Point, [x1, y1]: Point): string =>
  `M${x0},${y0}C${x0},${(y0 + y1) / 2},${x1},${(y0 + y1) / 2},${x1},${y1}`;
