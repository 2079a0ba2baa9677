// The tooltip's content: a value with four digits, and the tensor's name in Python.

export interface Hint {
  x: number;
  y: number;
  title: string;
  value?: string;
  name?: string;
}

export const hint = $state<{ now: Hint | null }>({ now: null });

export function pointAt(event: { clientX: number; clientY: number }, title: string, value?: string, name?: string): void {
  hint.now = { x: event.clientX, y: event.clientY, title, value, name };
}

export function leave(): void {
  hint.now = null;
}
