"""The interactive cockpit: a Textual app over the engine. The only importer of textual."""
