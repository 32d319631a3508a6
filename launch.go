package waypost

import "time"

// LaunchStatus is where a launch stands.
type LaunchStatus string

// The states of a launch. Completed and canceled are final.
const (
	LaunchPending   LaunchStatus = "pending"   // accepted, nobody is enrolled yet
	LaunchScheduled LaunchStatus = "scheduled" // begins at its StartAt
	LaunchRunning   LaunchStatus = "running"   // enrolls its audience, or enrollments of it have not ended
	LaunchPaused    LaunchStatus = "paused"
	LaunchCompleted LaunchStatus = "completed" // everybody is enrolled or skipped, and every enrollment has ended
	LaunchCanceled  LaunchStatus = "canceled"
)

// Ended tells whether nothing more will happen to the launch.
func (s LaunchStatus) Ended() bool { return s == LaunchCompleted || s == LaunchCanceled }

// MaxAudience is the largest number of leads that a launch can list.
const MaxAudience = 1_000_000

// Launch enrolls an audience into a journey's newest version (contract, chapter 6).
type Launch struct {
	ID            string
	Scope         Scope
	JourneyID     string
	Version       int
	AppID         string // the application that launched
	Audience      Audience
	StartAt       *time.Time // nil: at once
	RatePerSecond float64    // enrollments a second, 0: as fast as it goes
	Status        LaunchStatus
	CreatedAt     time.Time
	StartedAt     *time.Time // when the first lead was enrolled
	EndedAt       *time.Time // when the last enrollment ended, or of the cancel
	Progress      LaunchProgress
}

// LaunchProgress counts what became of a launch's audience.
type LaunchProgress struct {
	Total     int // leads of the audience, 0 until it has started
	Enrolled  int
	Skipped   int // whom the re-entry policy forbids, and listed leads that do not exist
	Completed int // enrollments that have ended, however
	Outcomes  OutcomeCounts
}

// OutcomeCounts counts messages by where their delivery stands.
type OutcomeCounts struct {
	Pending   int `json:"pending"`
	Retrying  int `json:"retrying"`
	Deferred  int `json:"deferred"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Canceled  int `json:"canceled"`
}

// Audience is whom a launch enrolls: the leads that match the filter when it
// starts, or those that are listed. Exactly one of the two is set.
type Audience struct {
	Filter   *LeadFilter
	LeadsIDs []int64 // distinct
}

// LeadFilter selects leads. Nil and zero members do not filter.
type LeadFilter struct {
	LeadsGroup  *int64
	Region      *int64
	Name        string // prefix
	MobilePhone string // E.164
	Email       string
	ExternalID  string
	CreatedFrom time.Time
	CreatedTo   time.Time // exclusive
	UpdatedFrom time.Time
	UpdatedTo   time.Time // exclusive
}

// LaunchStep is what one step of enrolling an audience came to.
type LaunchStep struct {
	Enrolled int // in this step
	Skipped  int // in this step
	// Done says that nobody is left; Canceled, that nobody more is to be enrolled;
	// Held names what must be resumed first.
	Done     bool
	Canceled bool
	Held     []string
}
