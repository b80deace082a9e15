figures.draw().then(() => { document.body.dataset.drawn = "yes"; });
