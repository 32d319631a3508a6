package waypost

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// EnrollmentStatus is where an enrollment stands.
type EnrollmentStatus string

// The states of an enrollment. Those from completed on are final.
const (
	EnrollmentPending   EnrollmentStatus = "pending"   // accepted, no workflow yet
	EnrollmentRunning   EnrollmentStatus = "running"   // at a touchpoint or a branch
	EnrollmentWaiting   EnrollmentStatus = "waiting"   // in a delay
	EnrollmentPaused    EnrollmentStatus = "paused"    //
	EnrollmentCompleted EnrollmentStatus = "completed" // reached an end of the journey
	EnrollmentExited    EnrollmentStatus = "exited"    // left by an exitOn event
	EnrollmentFailed    EnrollmentStatus = "failed"    // could not go on
	EnrollmentCanceled  EnrollmentStatus = "canceled"
	EnrollmentHeldOut   EnrollmentStatus = "heldOut" // of the control group: nothing happens, and it has ended as it began
)

// Ended tells whether nothing more will happen to the enrollment.
func (s EnrollmentStatus) Ended() bool {
	return s == EnrollmentCompleted || s == EnrollmentExited || s == EnrollmentFailed || s == EnrollmentCanceled || s == EnrollmentHeldOut
}

// EnrollmentStatuses lists all states.
var EnrollmentStatuses = []EnrollmentStatus{
	EnrollmentPending, EnrollmentRunning, EnrollmentWaiting, EnrollmentPaused,
	EnrollmentCompleted, EnrollmentExited, EnrollmentFailed, EnrollmentCanceled, EnrollmentHeldOut,
}

// EnrollmentFilter selects and orders enrollments. Zero members do not filter.
type EnrollmentFilter struct {
	JourneyID string
	Version   int
	// NodeID is where they stand. One that has ended stands nowhere: with Statuses that
	// name how it did, NodeID is where that was.
	NodeID      string
	Statuses    []EnrollmentStatus // one of them
	LeadsID     int64
	LaunchID    string
	From, To    time.Time // of CreatedAt; To is exclusive
	OldestFirst bool      // newest first otherwise
}

// Enrollment is one lead's way through one version of a journey.
type Enrollment struct {
	ID         string           `json:"enrollmentId"`
	JourneyID  string           `json:"journeyId"`
	Version    int              `json:"version"`
	LeadsID    int64            `json:"leadsId"`
	LaunchID   string           `json:"-"` // "" without a launch
	AppID      string           `json:"-"` // the application that enrolled
	EntryKey   string           `json:"entryKey"`
	Params     map[string]any   `json:"params"`
	Status     EnrollmentStatus `json:"status"`
	NodeID     string           `json:"nodeId"`
	WorkflowID string           `json:"workflowId"` // "" until started
	CreatedAt  time.Time        `json:"createdAt"`
	EndedAt    *time.Time       `json:"endedAt"`
	Entry      Entry            `json:"-"`
	Event      *Event           `json:"-"` // that it began by; nil where it began by something else
	// Depth counts the enrollments before it in a row, without a wait between, each of which
	// made the next one at an enroll node, or emitted the event or changed the lead so that it
	// did. That event's is the same.
	Depth int `json:"-"`
}

// ErrNotPublished says that a journey's published version is another one by now; see
// Reentry.Current.
var ErrNotPublished = errors.New("another version of the journey is published")

// Reentry says when a lead may enter a journey again (docs/contract.md, "Re-entry").
type Reentry struct {
	Policy ReentryPolicy `json:"policy"`
	Every  Duration      `json:"every,omitzero"` // least time between two entries
	// Current lets nobody in once another version of the journey is published.
	Current bool `json:"-"`
}

// ReentryPolicy is one of the Reentry… values.
type ReentryPolicy string

// Re-entry policies. The first is the default: one active enrollment per lead
// and entryKey, another after it has ended.
const (
	ReentryAfterExit ReentryPolicy = "afterExit"
	ReentryNever     ReentryPolicy = "never"
	ReentryAlways    ReentryPolicy = "always"
)

// What a timeline entry can say (docs/contract.md, "Timeline").
const (
	WhatEntered  = "entered"
	WhatSent     = "sent"
	WhatFailed   = "failed"
	WhatSkipped  = "skipped"
	WhatDeferred = "deferred"
	WhatWaited   = "waited"
	WhatMatched  = "matched"
	WhatTimedOut = "timedOut"
	WhatTook     = "took"
	WhatUpdated  = "updated"
	WhatEmitted  = "emitted"
	WhatPaused   = "paused"
	WhatResumed  = "resumed"
	WhatExited   = "exited"
)

// ReasonControlGroup is the reason of the one entry of an enrollment that is held out.
const ReasonControlGroup = "control group"

// TimelineEntry is one thing that happened to an enrollment. Seq counts from 1
// and makes recording it idempotent. Reason never holds personal data.
type TimelineEntry struct {
	Seq    int       `json:"seq"`
	At     time.Time `json:"at"`
	NodeID string    `json:"nodeId"`
	What   string    `json:"what"`
	Next   string    `json:"next"`
	Way    string    `json:"way,omitzero"` // of Edge, by which the node was left; "" if it was not
	Reason string    `json:"reason"`
	// Version is the journey version the entry belongs to; storage fills it in.
	Version int `json:"version"`
}

// Progress is what is to be recorded of an enrollment: new timeline entries and
// where it stands now. LastSeq orders progress: an older one never overwrites a
// newer one.
type Progress struct {
	EnrollmentID string
	Status       EnrollmentStatus
	NodeID       string
	LastSeq      int
	Entries      []TimelineEntry
	// Deferred says that the entry before these is a deferral. Storage is only the faster for
	// knowing: what is recorded counts.
	Deferred bool
}

// Cohort is a group of enrollments of one journey version that one workflow
// drives. ID is the workflow's id: the enrollment's own for a single one, else
// coh_…. It is empty while enrollments are claimed that no workflow drives yet.
type Cohort struct {
	ID       string
	LaunchID string // that all of them come from, "" if they come from the API
	Version  JourneyVersion
	Members  []CohortMember
}

// CohortMember is one enrollment of a cohort.
type CohortMember struct {
	EnrollmentID string `json:"e"`
	LeadsID      int64  `json:"l"`
	// Carried is what one goes on with that comes from another version.
	Carried json.RawMessage `json:"c,omitempty"`
}

const (
	// MaxCohort is the largest number of enrollments from the API, or of messages that
	// are redelivered, that one workflow drives.
	MaxCohort = 100
	// MaxLaunchCohort is the largest number of a launch: nearly all that Temporal does for
	// a workflow is the same whatever it drives, so each lead of a larger one costs less.
	MaxLaunchCohort = 200
	// maxLeadList bounds a workflow's search attribute WaypostLead, in bytes of JSON: the
	// value that Temporal takes unless it is configured otherwise
	// (frontend.searchAttributesSizeOfValueLimit). 200 leadsIds of 7 digits fit in.
	maxLeadList = 2048
)

// LaunchCohort is how many of a launch's members, from the first on, one workflow drives:
// at most MaxLaunchCohort, and fewer where the list of their leads would be longer than
// Temporal takes.
func LaunchCohort(members []CohortMember) int {
	members = members[:min(len(members), MaxLaunchCohort)]
	size := len(`[]`)
	for i, m := range members {
		size += len(`"",`) + len(strconv.FormatInt(m.LeadsID, 10))
		if size > maxLeadList {
			return i
		}
	}
	return len(members)
}

// Limits of enroll nodes: a journey can enroll its leads in itself, or in one that
// leads back to it.
const (
	// MaxEnrollDepth is the largest number of enrollments that enroll nodes make in a
	// row, each by the one before it, without a wait between.
	MaxEnrollDepth = 10
	// MaxEnrolledAtOnce is the number of enrollments of one lead in one journey at which
	// enroll nodes make no more until one has ended, where its re-entry policy allows
	// several.
	MaxEnrolledAtOnce = 100
)

// Onward is an enrollment at an enroll node: its lead is to enter another journey. One
// visit to the node enrolls once.
type Onward struct {
	Touchpoint
	LeadsID int64
	Waited  bool // in a wait of its journey, since it began
}

// OnwardBatch is a group of enrollments of one journey that are at a node which
// enrolls in another one, or in the same.
type OnwardBatch struct {
	Scope     Scope
	JourneyID string // of the enrollments
	LaunchID  string // of the enrollments, "" if none
	// Into is the journey to enter, Version its newest version and Reentry that
	// version's rule.
	Into    string
	Version int
	Reentry Reentry
	Items   []Onward
}

// OnwardResult is what came of one Onward.
type OnwardResult struct {
	EnrollmentID string // "" if the lead was not enrolled
	HeldOut      bool   // by the control group of the journey that it was to enter
	Refused      string // why not, without personal data
	// Stopped says that nothing was decided: the enrollment is paused, or has ended.
	Stopped bool
}
