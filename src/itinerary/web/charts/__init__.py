"""Charts rendered by the server: SVG text, without script and without style attributes, which the CSP forbids.

    svg           escaped elements; a whole picture with its title
    sparkline     a small line chart
    elapsed       the elapsed time of a run, against its usual durations
    strip         the latest outcomes of a job, one mark each
    heatmap       a year as a calendar
    durations     the durations of the latest runs
    waterfall     start and end, as a bar in a table row
    gantt         a lane of the timeline
    marks         the appearance of each state: a colour and a shape, so that colour is never the only sign

Colours are classes in `static/itinerary.css` (`fill-good`, `line-bad`), so every chart follows the dark theme.
"""
