"""Where the parts of the tune screen stand, by size."""

CSS = """
TuneScreen {
    TuneStatus, #introduction, TuneSetup { padding: 0 1; }
    #introduction { height: auto; margin: 1 0; max-width: 100; }
    TuneSetup { margin-bottom: 1; }
    TuneViews, #views { height: 1fr; }
    .view { border: round $panel; border-title-color: $text-muted; padding: 0 1; }
    TrialsTable { height: 1fr; }
    #detail { height: auto; max-height: 3; color: $text-muted; }
    Heatmap { height: 1fr; }
    HistoryPlot { height: 1fr; }
    ImportanceBars { border-top: solid $panel; border-title-color: $text-muted; }

    &.-idle TuneViews { display: none; }

    &.-narrow, &.-short {
        .view { display: none; border: none; }
        .view.-active { display: block; }
    }
    &.-wide.-tall, &.-broad.-tall { Tabs { display: none; } }
    &.-wide.-tall #views {
        layout: grid; grid-size: 2 2; grid-rows: 1fr 17;
        #trials { column-span: 2; }
    }
    &.-broad.-tall #views {
        layout: grid; grid-size: 2 2; grid-columns: 11fr 10fr; grid-rows: 26 1fr;
        #trials { row-span: 2; }
    }
    &.-ascii {
        Underline { display: none; }
        Tabs { height: 1; }
        &.-wide.-tall .view, &.-broad.-tall .view { border: ascii $panel; }
        ImportanceBars { border-top: ascii $panel; }
    }
}
"""
