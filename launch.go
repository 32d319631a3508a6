package waypost

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// LaunchStatus is where a launch stands.
type LaunchStatus string

// The states of a launch. Completed and canceled are final.
const (
	LaunchPending   LaunchStatus = "pending"   // accepted, nobody is enrolled yet
	LaunchScheduled LaunchStatus = "scheduled" // begins at its StartAt, or recurs
	LaunchRunning   LaunchStatus = "running"   // enrolls its audience, or enrollments of it have not ended
	LaunchPaused    LaunchStatus = "paused"
	LaunchCompleted LaunchStatus = "completed" // everybody is enrolled, skipped or held out, and every enrollment has ended
	LaunchCanceled  LaunchStatus = "canceled"
)

// Ended tells whether nothing more will happen to the launch.
func (s LaunchStatus) Ended() bool { return s == LaunchCompleted || s == LaunchCanceled }

// MaxAudience is the largest number of leads that a launch can list.
const MaxAudience = 1_000_000

// Launch enrolls an audience into a journey's newest version
// (docs/contract.md, "Launching").
// One with a Schedule recurs: it enrolls nobody itself, but opens an occurrence, a
// launch of its own, at each time of the schedule.
type Launch struct {
	ID            string
	Scope         Scope
	JourneyID     string
	Version       int    // of a recurring launch: the newest when it was made; each occurrence gets the newest of its time
	AppID         string // the application that launched
	Audience      Audience
	StartAt       *time.Time // nil: at once; of a recurring launch: there is no occurrence before
	RatePerSecond float64    // enrollments a second, 0: as fast as it goes
	Schedule      *Schedule  // nil: it does not recur
	ControlGroup  float64    // the share of the audience that is held out, 0: nobody
	RecurringID   string     // of an occurrence: its recurring launch
	OccursAt      *time.Time // of an occurrence: its time in the schedule
	Status        LaunchStatus
	CreatedAt     time.Time
	StartedAt     *time.Time // when the first lead was enrolled
	EndedAt       *time.Time // when the last enrollment ended, or of the cancel
	Progress      LaunchProgress
	Recurrence    *Recurrence // of a recurring launch
}

// Recurrence is what became of a recurring launch so far. The launch's Progress is
// that of its occurrences together.
type Recurrence struct {
	NextAt      *time.Time // nil while it is paused, and once it is canceled
	Occurrences int        // that were opened
	LastSkip    *SkippedOccurrence
}

// SkippedOccurrence is an occurrence that was due and not opened.
type SkippedOccurrence struct {
	At     time.Time // its time in the schedule
	Reason SkipReason
}

// SkipReason says why an occurrence was not opened.
type SkipReason string

// Why occurrences are skipped.
const (
	SkipPaused   SkipReason = "paused"   // the recurring launch or its journey was
	SkipArchived SkipReason = "archived" // the journey was
	SkipLate     SkipReason = "late"     // Waypost could not open it within OccurrenceWindow
	SkipCanceled SkipReason = "canceled" // the recurring launch was, and Temporal had not heard of it yet
)

// OccurrenceWindow is how late an occurrence can be opened, after an outage.
const OccurrenceWindow = time.Hour

// Occurrence is what opening one came to: a launch, or why there is none.
type Occurrence struct {
	LaunchID string
	Skipped  SkipReason
}

// LaunchFilter selects launches. Empty members do not filter.
type LaunchFilter struct {
	JourneyID   string
	RecurringID string // the occurrences of this launch
	Status      LaunchStatus
}

// LaunchProgress counts what became of a launch's audience.
type LaunchProgress struct {
	Total     int // leads of the audience, 0 until it has started
	Enrolled  int
	Skipped   int // leads that the re-entry policy keeps out, and listed ones that do not exist
	HeldOut   int // the control group
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

// Audience is the leads that a launch enrolls: all that match the filter or are in the
// segment when it starts, or all that are listed. Exactly one of the three is set.
type Audience struct {
	Filter   *LeadFilter
	Segment  string  // its id
	LeadsIDs []int64 // distinct
}

// Listed tells whether the leads are listed.
func (a Audience) Listed() bool { return a.Filter == nil && a.Segment == "" }

// LeadFilter selects leads. Nil and zero members do not filter.
type LeadFilter struct {
	LeadsIDs    []int64 `json:",omitempty"` // these alone
	LeadsGroup  *int64
	Region      *int64
	Name        string // prefix
	MobilePhone string // E.164
	Email       string
	ExternalID  string
	Gender      *int64
	Test        *bool
	Birthday    string // a date, or --MM-DD for that day of any year
	// CustomFields are values by the names of fields: a text, or the number or boolean that
	// it spells.
	CustomFields map[string]string `json:",omitempty"`
	CreatedFrom  time.Time
	CreatedTo    time.Time // exclusive
	UpdatedFrom  time.Time
	UpdatedTo    time.Time // exclusive
}

// TestOnly tells whether it selects test leads alone.
func (f LeadFilter) TestOnly() bool { return f.Test != nil && *f.Test }

// Names lists the members of the filter that are set, a custom field as customFields.NAME.
func (f LeadFilter) Names() []string {
	names := []string{}
	for _, member := range []struct {
		name string
		set  bool
	}{
		{"leadsIds", len(f.LeadsIDs) > 0}, {"leadsGroup", f.LeadsGroup != nil}, {"region", f.Region != nil}, {"name", f.Name != ""}, {"mobilePhone", f.MobilePhone != ""},
		{"email", f.Email != ""}, {"externalId", f.ExternalID != ""}, {"gender", f.Gender != nil}, {"test", f.Test != nil}, {"birthday", f.Birthday != ""},
		{"createdFrom", !f.CreatedFrom.IsZero()}, {"createdTo", !f.CreatedTo.IsZero()},
		{"updatedFrom", !f.UpdatedFrom.IsZero()}, {"updatedTo", !f.UpdatedTo.IsZero()},
	} {
		if member.set {
			names = append(names, member.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.CustomFields)) {
		names = append(names, "customFields."+name)
	}
	return names
}

// LaunchStep is what one step of enrolling an audience came to.
type LaunchStep struct {
	Enrolled int // in this step
	Skipped  int // in this step
	HeldOut  int // in this step
	// Done says that nobody is left; Canceled, that nobody more is to be enrolled;
	// Held names what must be resumed first.
	Done     bool
	Canceled bool
	Held     []string
}

// HeldOut tells whether a lead belongs to a journey's control group of that share, 0
// to 1. It depends on the arguments alone: a lead that is held out of one launch of a
// journey is held out of all with this share or a larger one, and independently of
// other journeys and of the arms of splits. Of many leads the share is held out, up to
// chance.
//
// The first eight bytes of the SHA-256 of "waypost control", the journey and the
// lead's id in decimal, joined by zero bytes, are a fraction between 0 and 1: who is
// below the share is held out.
func HeldOut(journeyID string, leadsID int64, share float64) bool {
	sum := sha256.Sum256(fmt.Appendf(nil, "waypost control\x00%s\x00%d", journeyID, leadsID))
	return float64(binary.BigEndian.Uint64(sum[:])>>11)/(1<<53) < share
}
