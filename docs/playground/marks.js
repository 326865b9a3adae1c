// What all pictures share: colours of the theme, the marks of classes, and canvases that follow their size.
"use strict";
(function (page) {
  // The colours that the style sheet has for the reader's theme.
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return {
      classes: page.NAMES.map((name) => of(`--class-${name.toLowerCase()}`)),
      text: of("--text"),
      faint: of("--faint"),
      line: of("--line"),
      panel: of("--panel"),
      surface: of("--surface"),
      warn: of("--warn"),
      accent: of("--accent"),
    };
  }

  // A canvas with as many pixels as it has on the screen, cleared; returns its context, width and height.
  function prepared(canvas) {
    const ratio = Math.min(globalThis.devicePixelRatio || 1, 2);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return { context, width, height };
  }

  const CORNERS = [0, 4, 3, 4, 5, 3]; // circle, square, triangle, diamond, pentagon, triangle that points down
  const TURNS = [0, Math.PI / 4, -Math.PI / 2, 0, -Math.PI / 2, Math.PI / 2];

  // Adds the mark of a class to the path: each has a shape of its own, because colours are not enough.
  function addMark(context, c, x, y, radius) {
    if (!CORNERS[c]) {
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
      return;
    }
    for (let i = 0; i < CORNERS[c]; i++) {
      const angle = TURNS[c] + (2 * Math.PI * i) / CORNERS[c];
      const corner = [x + 1.25 * radius * Math.cos(angle), y + 1.25 * radius * Math.sin(angle)];
      if (i) context.lineTo(...corner);
      else context.moveTo(...corner);
    }
    context.closePath();
  }

  Object.assign(page, { readColours, prepared, addMark });
})((globalThis.orthoframe ??= {}));
