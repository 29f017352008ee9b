"""Where the parts of the what-if screen stand, by size."""

CSS = """
WhatIfScreen {
    #heading { display: none; height: 1; padding: 0 1; color: $text-muted; text-wrap: nowrap; }
    .basis { height: auto; padding: 0 1; color: $text-muted; }
    #whole { display: none; }
    /* Two lines even where one is enough: the plot stays where it is. */
    #counts { height: auto; min-height: 2; padding: 0 1; }
    #best { height: auto; padding: 0 1; color: $text-success; }
    #empty { height: 1fr; padding: 1 2; }
    #found { height: 1fr; overflow-y: auto; scrollbar-size-vertical: 1; }
    #top { height: auto; padding: 0 1; layout: vertical; }
    Steppers { height: 3; width: 1fr; }
    Numbers { width: 1fr; }
    WhatIfPlot { min-height: 8; }
    &.-wide #top { layout: horizontal; padding: 1 1 0 1; }
    &.-wide Numbers { padding-left: 4; }

    &.-tiny, &.-short {
        #heading { display: block; }
        #basis { display: none; }
        #whole { display: block; }
        #counts { min-height: 0; }
        #empty { padding: 0 1; }
        #top { padding: 0 1; }
        Numbers { layout: grid; grid-size: 2 2; grid-rows: 1; grid-gutter: 0 1; height: 2; }
        BigNumber { layout: horizontal; height: 1; }
        BigNumber Digits { display: none; }
        BigNumber .plain { display: block; width: auto; margin-right: 1; }
        BigNumber .name { width: 1fr; }
        WhatIfPlot { min-height: 10; }
        /* The last one alone, below the steppers and as wide as there is room. */
        ToastRack { max-height: 6; }
        ToastHolder { display: none; }
        ToastHolder:last-child { display: block; }
        Toast { width: 100%; max-width: 100%; margin: 0; padding: 0 1; }
    }

    &.-empty #found, &.-empty #heading, &.-empty .basis { display: none; }
    &.-found #empty { display: none; }
}
"""
