// Lines and bows, as paths of SVG.

type Point = [number, number];

export const polyline = (points: Point[]): string =>
  points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

/** From one point to another, leaving and arriving sideways. */
export const bowAcross = ([x0, y0]: Point, [x1, y1]: Point): string =>
  `M${x0},${y0}C${(x0 + x1) / 2},${y0},${(x0 + x1) / 2},${y1},${x1},${y1}`;

/** From one point to another, leaving and arriving upright. */
export const bowUp = ([x0, y0]: Point, [x1, y1]: Point): string =>
  `M${x0},${y0}C${x0},${(y0 + y1) / 2},${x1},${(y0 + y1) / 2},${x1},${y1}`;
