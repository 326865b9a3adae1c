// The controls: what they show of the settings, and the settings that they make.
"use strict";
(function (page) {
  const { MOST_SAMPLES, SPEEDS } = page;
  const [COLDEST, HOTTEST] = [0.05, 2];
  const TICKS = 100; // of the temperature's slider, which is logarithmic

  const toTick = (temperature) => (TICKS * Math.log(temperature / COLDEST)) / Math.log(HOTTEST / COLDEST);
  const fromTick = (tick) => Number((COLDEST * (HOTTEST / COLDEST) ** (tick / TICKS)).toPrecision(2));
  const speedName = (speed) => (speed < 1 ? `1 step in ${1 / speed} frames` : `${speed} step${speed > 1 ? "s" : ""} per frame`);

  function find(id) {
    return document.getElementById(id);
  }

  function say(id, text, input) {
    find(`${id}-value`).textContent = text;
    input.setAttribute("aria-valuetext", text);
  }

  // Calls `onChange` with the names of the settings that the reader changed and their values.
  class Controls {
    constructor(onChange) {
      this.onChange = onChange;
      this.listen("classes", (input) => ({ sizes: this.resized(Number(input.value)) }));
      this.listen("loss", (input) => ({ loss: input.value }));
      this.listen("relu", (input) => ({ relu: input.checked }));
      this.listen("temperature", (input) => ({ temperature: fromTick(Number(input.value)) }), "input");
      this.listen("margin", (input) => ({ margin: Number(input.value) }), "input");
      this.listen("plan", (input) => ({ plan: input.value }));
      this.listen("batch-size", (input) => ({ batchSize: this.whole(input, 2, this.samples) }));
      this.listen("seed", (input) => ({ seed: this.whole(input, 0, 999999) }));
      this.listen("speed", (input) => ({ speed: SPEEDS[Number(input.value)] }), "input");
      find("sizes").addEventListener("change", () => {
        const inputs = [...find("sizes").querySelectorAll("input")];
        this.onChange({ sizes: inputs.map((input) => this.whole(input, 1, Number(input.max))) });
      });
    }

    listen(id, read, event = "change") {
      find(id).addEventListener(event, () => this.onChange(read(find(id))));
    }

    // What a field of a whole number holds, within its limits.
    whole(input, low, high) {
      return Math.min(high, Math.max(low, Math.round(Number(input.value)) || low));
    }

    get samples() {
      return this.sizes.reduce((sum, size) => sum + size, 0);
    }

    // The sizes of more classes, or fewer; a new class has the size of the last.
    resized(k) {
      const sizes = this.sizes.slice(0, k);
      while (sizes.length < k) {
        const room = MOST_SAMPLES - sizes.reduce((sum, size) => sum + size, 0);
        sizes.push(Math.max(1, Math.min(sizes.at(-1), room)));
      }
      return sizes;
    }

    show(settings) {
      this.sizes = settings.sizes;
      find("classes").value = String(settings.sizes.length);
      this.showSizes();
      find("loss").value = settings.loss;
      find("relu").checked = settings.relu;
      find("temperature").value = String(Math.round(toTick(settings.temperature)));
      say("temperature", String(settings.temperature), find("temperature"));
      find("margin").value = String(settings.margin);
      say("margin", String(settings.margin), find("margin"));
      find("plan").querySelector("[value=edited]").hidden = settings.plan !== "edited";
      find("plan").value = settings.plan;
      find("batch-size").max = String(this.samples);
      find("batch-size").value = String(settings.batchSize);
      find("batch-size").disabled = settings.plan === "full" || settings.plan === "edited";
      find("seed").value = String(settings.seed);
      find("speed").value = String(SPEEDS.indexOf(settings.speed));
      say("speed", speedName(settings.speed), find("speed"));
    }

    showSizes() {
      const box = find("sizes");
      if (box.querySelectorAll("input").length !== this.sizes.length) {
        box.innerHTML = this.sizes
          .map((_, c) => {
            const name = page.NAMES[c];
            return `<label class="size class-${name.toLowerCase()}"><span>${name}</span><input type="number" min="1" step="1" inputmode="numeric" aria-label="samples of class ${name}"></label>`;
          })
          .join("");
      }
      box.querySelectorAll("input").forEach((input, c) => {
        input.max = String(MOST_SAMPLES - this.samples + this.sizes[c]);
        input.value = String(this.sizes[c]);
      });
    }
  }

  Object.assign(page, { Controls });
})((globalThis.orthoframe ??= {}));
