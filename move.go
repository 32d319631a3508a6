package waypost

// Migration is what people order for enrollments of a journey that wait: those of
// one version are to go on in another.
type Migration struct {
	JourneyID string
	From, To  int
	// Nodes says, by the node of From that an enrollment waits on, on which node of To
	// it goes on. Others stay.
	Nodes map[string]string
}

// Migrated counts the enrollments of a migration: those that waited on its nodes,
// and those of them that were ordered to move.
type Migrated struct {
	Matched int `json:"matched"`
	Moved   int `json:"moved"`
}

// Move is where one enrollment is to go on.
type Move struct {
	To   int    `json:"to"`
	Node string `json:"node"`
}

// Leaving is an enrollment that is to leave its workflow for one of another version.
type Leaving struct {
	Touchpoint
	LeadsID int64
	Seq     int // of the last thing that happened to it
	// Move is what was ordered, zero for nothing.
	Move Move
	// Carried is what the new workflow goes on with; storage only keeps it.
	Carried []byte
	Wait    *Wait // of one that waits for an event
}

// LeavingBatch is a group of enrollments of one workflow.
type LeavingBatch struct {
	JourneyID string
	LaunchID  string // of the enrollments, "" if none
	Version   int
	Items     []Leaving
}
