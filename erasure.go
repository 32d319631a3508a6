package waypost

// Erasure says what the deletion of a lead has erased, and what is kept.
type Erasure struct {
	LeadsID int64
	Erased  Erased
	Kept    KeptOfLead
}

// Erased counts what was erased beside the lead.
type Erased struct {
	Canceled int // enrollments that had not ended
	Messages int // with what their receivers answered
	Params   int // of enrollments, with the events that these began by
	Events   int
	Answers  int // kept for an Idempotency-Key
	Filters  int // of launches, that named the lead alone
}

// KeptOfLead counts what stays of a lead that was deleted.
type KeptOfLead struct {
	Enrollments  int64 // ids, times and outcomes
	Deliveries   int64 // ids, times and outcomes
	Messages     int64 // of an attempt that is under way
	Suppressions int64 // of its addresses
	Filters      int64 // of launches, that other leads meet, too
	Imports      int64 // of the scope, whose rows are not processed yet
}
