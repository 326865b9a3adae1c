// Draw each picture into its element.
for (const source of document.querySelectorAll("script[data-plot]")) {
  const figure = JSON.parse(source.textContent);
  Plotly.newPlot(source.dataset.plot, figure.data, figure.layout, {
    responsive: true,
    displayModeBar: false, // drag to zoom, double click to go back: the buttons would lie over legends
    typesetMath: false, // a class may be called $x$
  });
}
