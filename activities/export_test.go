package activities

// PacingSlots is how many launches may wait for their rate in activities.
const PacingSlots = pacingSlots
