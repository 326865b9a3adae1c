// The batches as lists of samples that the reader moves: by dragging, by two clicks, or with the keyboard.
"use strict";
(function (page) {
  const HOLD = 250; // milliseconds that a finger rests before it drags and does not scroll
  const FAR = 6; // pixels after which a mouse drags

  // Lists of batches with one sample moved, or copied, from `batch` to the batch `to`; null for `to` takes it out.
  // The batch after the last is a new one, and empty ones are left out.
  function moved(batches, { batch, sample }, to, copies) {
    const edited = batches.map((list) => [...list]);
    if (!copies) edited[batch].splice(edited[batch].indexOf(sample), 1);
    if (to !== null) (edited[to] ??= []).push(sample);
    return edited.filter((list) => list.length);
  }

  // `onEdit` gets other batches, and `say` what to tell the reader.
  class BatchEditor {
    constructor(element, { onEdit, say }) {
      Object.assign(this, { element, onEdit, say, held: null, target: null, focused: 0 });
      element.addEventListener("click", (event) => this.click(event));
      element.addEventListener("keydown", (event) => this.key(event));
      element.addEventListener("pointerdown", (event) => this.press(event));
      element.addEventListener("touchmove", (event) => this.ghost && event.preventDefault(), { passive: false });
      element.addEventListener("contextmenu", (event) => this.ghost && event.preventDefault());
    }

    show({ batches, classes }) {
      Object.assign(this, { batches, classes });
      this.held = null;
      const hadFocus = this.element.contains(document.activeElement);
      const lists = batches.map((batch, number) => this.list(batch, number));
      const fresh = '<li class="batch new" data-batch="' + batches.length + '"><span class="number">new batch</span></li>';
      this.element.innerHTML = lists.join("") + fresh;
      this.chips = [...this.element.querySelectorAll(".chip")];
      this.focus(Math.min(this.focused, this.chips.length - 1), hadFocus);
    }

    list(batch, number) {
      const order = [...batch].sort((a, b) => a - b);
      const chips = order.map((sample) => {
        const name = page.NAMES[this.classes[sample]];
        const label = `sample ${sample}, class ${name}, batch ${number + 1}`;
        const data = `data-batch="${number}" data-sample="${sample}"`;
        return `<button type="button" class="chip class-${name.toLowerCase()}" ${data} tabindex="-1" aria-pressed="false" aria-label="${label}">${name}<small>${sample}</small></button>`;
      });
      const title = `<span class="number">batch ${number + 1}</span>`;
      return `<li class="batch" data-batch="${number}">${title}${chips.join("")}</li>`;
    }

    // One chip at a time can be reached with the tab key; arrows go on from there.
    focus(index, now = true) {
      this.chips[this.focused]?.setAttribute("tabindex", "-1");
      this.focused = Math.max(0, index);
      const chip = this.chips[this.focused];
      chip?.setAttribute("tabindex", "0");
      if (now) chip?.focus();
    }

    hold(chip) {
      this.held = { batch: Number(chip.dataset.batch), sample: Number(chip.dataset.sample) };
      this.chips.forEach((other) => other.setAttribute("aria-pressed", other === chip));
      this.aim(this.held.batch);
    }

    aim(batch) {
      this.target = batch;
      for (const list of this.element.querySelectorAll(".batch")) {
        list.classList.toggle("target", this.held !== null && Number(list.dataset.batch) === batch);
      }
    }

    letGo() {
      this.held = null;
      this.chips.forEach((chip) => chip.setAttribute("aria-pressed", "false"));
      this.aim(null);
    }

    drop(to, copies) {
      const { held } = this;
      if (to === held.batch && !copies) {
        this.letGo();
        return;
      }
      const where = to === null ? "taken out" : `${copies ? "copied" : "moved"} to batch ${to + 1}`;
      const edited = moved(this.batches, held, to, copies);
      this.letGo();
      if (!edited.length) return;
      this.onEdit(edited);
      this.say(`Sample ${held.sample} ${where}.`);
    }

    click(event) {
      if (this.dragged) {
        this.dragged = false;
        return;
      }
      const list = event.target.closest(".batch");
      const chip = event.target.closest(".chip");
      if (this.held && list) {
        this.drop(Number(list.dataset.batch), event.shiftKey);
      } else if (chip) {
        this.focus(this.chips.indexOf(chip));
        this.hold(chip);
        this.say(`Sample ${this.held.sample} picked up. Choose a batch.`);
      }
    }

    key(event) {
      const chip = event.target.closest(".chip");
      if (!chip) return;
      const { key } = event;
      const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
      const vertical = key === "ArrowUp" || key === "ArrowDown";
      if (this.held && vertical) {
        const number = Math.min(this.batches.length, Math.max(0, this.target + steps[key]));
        this.aim(number);
        this.say(number === this.batches.length ? "New batch." : `Batch ${number + 1}.`);
      } else if (this.held && (key === "Enter" || key === " ")) {
        this.drop(this.target, event.shiftKey);
      } else if (this.held && key === "Escape") {
        this.letGo();
        this.say("Put back.");
      } else if (key === "Delete" || key === "Backspace") {
        this.hold(chip);
        this.drop(null, false);
      } else if (key === "Enter" || key === " ") {
        this.hold(chip);
        this.say(`Sample ${this.held.sample} picked up. Up and down choose a batch, Enter drops it there.`);
      } else if (key in steps) {
        this.focus(vertical ? this.beside(chip, steps[key]) : this.within(this.focused + steps[key]));
      } else {
        return;
      }
      event.preventDefault();
    }

    within(index) {
      return Math.min(this.chips.length - 1, Math.max(0, index));
    }

    // The first chip of the batch before or after.
    beside(chip, step) {
      const found = this.chips.findIndex((other) => Number(other.dataset.batch) === Number(chip.dataset.batch) + step);
      return found < 0 ? this.focused : found;
    }

    press(event) {
      const chip = event.target.closest(".chip");
      if (!chip || event.button) return;
      const start = [event.clientX, event.clientY];
      const finger = event.pointerType === "touch";
      const begin = (x, y) => {
        this.hold(chip);
        this.ghost = chip.cloneNode(true);
        this.ghost.classList.add("ghost");
        document.body.append(this.ghost);
        this.follow(x, y);
      };
      const timer = finger ? setTimeout(() => begin(...start), HOLD) : 0;
      const listening = new AbortController();
      const end = (drops, last) => {
        clearTimeout(timer);
        listening.abort();
        if (!this.ghost) return;
        this.ghost.remove();
        this.ghost = null;
        this.dragged = true; // a click follows
        setTimeout(() => (this.dragged = false));
        if (drops && this.target !== null) this.drop(this.target, last.shiftKey);
        else this.letGo();
      };
      const options = { signal: listening.signal };
      document.addEventListener("pointermove", (move) => {
        const far = Math.hypot(move.clientX - start[0], move.clientY - start[1]) > FAR;
        if (this.ghost) this.follow(move.clientX, move.clientY);
        else if (far && finger) end(false);
        else if (far) begin(move.clientX, move.clientY);
      }, options);
      document.addEventListener("pointerup", (up) => end(true, up), options);
      document.addEventListener("pointercancel", () => end(false), options);
    }

    follow(x, y) {
      this.ghost.style.transform = `translate(${x - 16}px, ${y - 12}px)`;
      const list = document.elementFromPoint(x, y)?.closest(".batch");
      this.aim(list && this.element.contains(list) ? Number(list.dataset.batch) : null);
    }
  }

  Object.assign(page, { BatchEditor });
})((globalThis.orthoframe ??= {}));
