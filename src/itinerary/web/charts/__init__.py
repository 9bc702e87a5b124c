"""Pictures drawn by the server: SVG as text, without script, and without a style attribute, which the policy forbids.

    svg           elements, escaped; a whole picture with its title
    sparkline     a small line of how something was
    elapsed       how long something has run, against what is usual
    strip         the last outcomes of a job, one mark each
    heatmap       a year as a calendar
    durations     how long the last runs took
    waterfall     when something began and ended, as a bar in a row of a table
    marks         what each state looks like: a colour, and a shape, so that the colour is never alone

Colours are classes in `static/itinerary.css` (`fill-good`, `line-bad`), so that every picture is right in the dark.
"""
