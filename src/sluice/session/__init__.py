"""WET: notices become rows, rows become history; and the record of decisions that nothing may run without."""
