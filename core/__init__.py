"""The engine room: measures, predicts, reduces and reports; knows no screen."""
