// Light or dark: as the system is set, or as the reader chose.

const KEY = "clearhead-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

type Choice = "light" | "dark" | null;

function stored(): Choice {
  try {
    const known = localStorage.getItem(KEY);
    return known === "light" || known === "dark" ? known : null;
  } catch {
    // In a notebook's frame there is no storage.
    return null;
  }
}

class Theme {
  private choice = $state<Choice>(stored());
  private system = $state(system.matches);

  constructor() {
    system.addEventListener("change", () => {
      this.system = system.matches;
    });
    this.apply();
  }

  get dark(): boolean {
    return this.choice ? this.choice === "dark" : this.system;
  }

  toggle(): void {
    this.choice = this.dark ? "light" : "dark";
    this.apply();
    try {
      localStorage.setItem(KEY, this.choice);
    } catch {
      // The choice lasts as long as the page.
    }
  }

  /** The palette in app.css follows `color-scheme`. */
  private apply(): void {
    document.documentElement.style.colorScheme = this.choice ?? "light dark";
  }
}

export const theme = new Theme();
