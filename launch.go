package waypost

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	Skips         LaunchSkips
	Recurrence    *Recurrence // of a recurring launch
	Test          *LaunchTest // nil: everybody is enrolled alike
}

// LaunchTest has a part of a launch's audience enter first. The rest is held until the split of
// the journey's version knows its winner.
type LaunchTest struct {
	Leads     int           `json:"leads,omitempty"` // how many enter first; 0: Share says it
	Share     float64       `json:"share,omitempty"` // of the audience
	After     time.Duration `json:"after"`           // how long the rest is held at most, from when the last of the first has entered
	Undecided Undecided     `json:"undecided"`
	// The split, when it compares its arms, and their weights.
	NodeID  string  `json:"nodeId"`
	Contest Contest `json:"contest"`
	Weights []int   `json:"weights"`

	Status  TestStatus `json:"-"`
	EndedAt *time.Time `json:"-"` // when the last of the first has entered
	RestAt  *time.Time `json:"-"` // when the wait was over
	Arm     int        `json:"-"` // of TestDecided
}

// Undecided says what becomes of the leads that are held if no arm has won in time.
type Undecided string

// Values of Undecided.
const (
	UndecidedSplit Undecided = "split" // they enter, and all arms take them
	UndecidedStop  Undecided = "stop"  // they do not enter
)

// TestStatus is where the test of a launch stands.
type TestStatus string

// The states of a launch's test.
const (
	TestEntering  TestStatus = "entering"  // its leads enter
	TestWaiting   TestStatus = "waiting"   // the rest is held
	TestDecided   TestStatus = "decided"   // an arm has won, which takes the rest
	TestUndecided TestStatus = "undecided" // no arm has won in time; the rest enters as the split divides
	TestStopped   TestStatus = "stopped"   // no arm has won in time; the rest does not enter
)

// Until is when the wait for a winner is over at the latest; nil before it begins.
func (t LaunchTest) Until() *time.Time {
	if t.EndedAt == nil {
		return nil
	}
	until := t.EndedAt.Add(t.After)
	return &until
}

// LaunchSkips says why leads of a launch were skipped.
type LaunchSkips struct {
	Reentry int `json:"reentry"` // the re-entry rule keeps them out
	Missing int `json:"missing"` // they are listed and do not exist
	Left    int `json:"left"`    // they left the audience, or were deleted, before it was their turn
}

// Empty tells whether the launch has ended and enrolled nobody.
func (l Launch) Empty() bool { return l.Status == LaunchCompleted && l.Progress.Enrolled == 0 }

// Message says why the launch has enrolled nobody, or not all; "" if there is nothing to say.
func (l Launch) Message() string {
	var stopped string
	if l.Test != nil && l.Test.Status == TestStopped {
		stopped = fmt.Sprintf("No arm of %s had won in time, and undecided is stop: %d leads were not enrolled.", l.Test.NodeID, l.Progress.Held)
	}
	if !l.Empty() {
		if l.Status == LaunchCompleted && l.Test != nil && l.Test.Status == TestEntering {
			return "All leads entered with the test: none was left for the arm that wins."
		}
		return stopped
	}
	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{
		{l.Skips.Reentry, "kept out by the journey's re-entry rule (reentry)"}, {l.Skips.Missing, "listed, and do not exist"},
		{l.Skips.Left, "deleted, or no longer in the audience when it was their turn"}, {l.Progress.HeldOut, "held out (controlGroup)"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.text))
		}
	}
	switch {
	case len(parts) > 0:
		return strings.TrimSuffix("Nobody was enrolled. Of the leads of the audience were: "+strings.Join(parts, "; ")+". "+stopped, " ")
	case stopped != "":
		return stopped
	case l.Audience.Segment != "":
		return "Nobody was enrolled: no lead was in the segment when the launch started."
	}
	return "Nobody was enrolled: no lead matched the filter when the launch started."
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
	Held      int // leads that wait for the end of the test, or did not enter because of how it ended
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
	ImportID     string    `json:",omitempty"` // created or updated by this import
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
		{"updatedFrom", !f.UpdatedFrom.IsZero()}, {"updatedTo", !f.UpdatedTo.IsZero()}, {"importId", f.ImportID != ""},
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
	// RatePerSecond is the launch's, which can change.
	RatePerSecond float64
	// Waits says that the rest is held: until an arm wins, and at the latest until then.
	Waits time.Time
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
