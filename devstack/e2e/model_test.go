package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
)

// The model says what must become of one lead. It is written from the
// documentation alone and knows nothing of the interpreter, the workflow or the
// arithmetic of waypost.Controls: where it and the product agree, two programs do.
// Its time is what passes since the enrollment begins; nothing but waiting takes
// any.

// The nodes of the model's journey: hello → rest → bought → check → thanks → end.
// check leads to end if hello did not succeed.
const (
	modelHello  = "hello"
	modelRest   = "rest"
	modelBought = "bought"
	modelCheck  = "check"
	modelThanks = "thanks"
	modelExit   = "end"
)

// modelEventName is the event that bought waits for.
const modelEventName = "purchase"

// modelJourney is the journey, as far as it may differ.
type modelJourney struct {
	Delay       time.Duration
	Timeout     time.Duration
	Since       bool            // since: enrollment
	OnTimeout   string          // "" goes on with check
	Schedule    []time.Duration // of retries; the last one repeats
	MaxAttempts int             // 0: no limit
}

// definition is the journey as it is published; its %q is the webhook's id.
func (j modelJourney) definition() string {
	since := ""
	if j.Since {
		since = `"since":"enrollment",`
	}
	if j.OnTimeout != "" {
		since += fmt.Sprintf(`"onTimeout":"%s",`, j.OnTimeout)
	}
	return fmt.Sprintf(`{"name":"Model","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%%q,"next":"rest"},
		{"id":"rest","type":"delay","for":"%s","next":"bought"},
		{"id":"bought","type":"waitForEvent","event":"%s","when":"event.amount > 100","timeout":"%s",%s"next":"check"},
		{"id":"check","type":"branch","cases":[{"when":"touchpoints.hello.succeed","next":"thanks"}],"otherwise":"end"},
		{"id":"thanks","type":"touchpoint","webhook":%%[1]q,"next":"end"},
		{"id":"end","type":"exit"}]}`, j.Delay, modelEventName, j.Timeout, since)
}

// modelLead is what one lead meets.
type modelLead struct {
	Answers  map[string]modelAnswer // of the receiver, by touchpoint
	Events   []modelEvent           // in the order of their times
	Pauses   []modelPause           // of the enrollment, its launch and its journey
	Canceled time.Duration          // 0: never
}

// modelAnswer is what the receiver says to the POSTs of one message.
type modelAnswer struct {
	Fails  int  // so many are answered 503
	Refuse bool // all others: 200 with succeed:false
}

// answer is what the receiver is to say to a POST, counted from 1.
func (a modelAnswer) answer(attempt int) harness.Answer {
	if attempt <= a.Fails {
		return harness.Answer{Status: http.StatusServiceUnavailable}
	}
	return harness.Answer{Status: http.StatusOK, Body: fmt.Sprintf(`{"succeed":%t,"message":"scripted"}`, !a.Refuse)}
}

// modelEvent is an event of the lead.
type modelEvent struct {
	At  time.Duration // after the lead came to bought; negative: before
	Yes bool          // whether the condition is true of it
}

// properties are such that the condition is what the event says.
func (e modelEvent) properties() map[string]any {
	if e.Yes {
		return map[string]any{"amount": 100.01}
	}
	return map[string]any{"amount": 100}
}

// modelPause is a time in which nothing happens. With Shift, waits stand still in
// it. To is 0 if it lasts; Shift means nothing then.
type modelPause struct {
	From, To time.Duration
	Shift    bool
}

func (p modelPause) covers(at time.Duration) bool { return p.From <= at && (at < p.To || p.To == 0) }

// modelEnd is where a lead's enrollment stands once nothing more happens.
type modelEnd struct {
	Status   waypost.EnrollmentStatus
	Node     string         // where it stands
	At       time.Duration  // when the last thing happened; retries have no jitter here
	Path     []harness.Step // what every node came to, as the timeline has it
	Messages []modelMessage
}

// modelMessage is a message that was POSTed at least once.
type modelMessage struct {
	Node     string
	Attempts int
	Status   waypost.DeliveryStatus // "" while undecided
}

// end computes what becomes of the lead.
func (j modelJourney) end(l modelLead) modelEnd {
	e := modelEnd{Status: waypost.EnrollmentRunning, Node: modelHello}
	hello := false
	for e.Status == waypost.EnrollmentRunning {
		switch node := e.Node; node {
		case modelHello:
			hello = j.send(l, &e, modelRest)
		case modelRest:
			if l.acts(&e, l.over(e.At, j.Delay)) {
				e.goes(waypost.WhatWaited, modelBought)
			}
		case modelBought:
			j.await(l, &e)
		case modelCheck:
			next := modelExit
			if hello {
				next = modelThanks
			}
			e.goes(waypost.WhatTook, next)
		case modelThanks:
			j.send(l, &e, modelExit)
		case modelExit:
			e.goes(waypost.WhatExited, modelExit)
			e.Status = waypost.EnrollmentCompleted
		default:
			panic("the model has no node " + node)
		}
	}
	return e
}

// send POSTs one message until it is decided.
func (j modelJourney) send(l modelLead, e *modelEnd, next string) (succeed bool) {
	m := modelMessage{Node: e.Node}
	script := l.Answers[e.Node]
	due := e.At
	for m.Status == "" {
		if !l.acts(e, due) {
			if m.Attempts > 0 {
				if e.Status == waypost.EnrollmentCanceled {
					m.Status = waypost.DeliveryCanceled
				}
				e.Messages = append(e.Messages, m)
			}
			return false
		}
		m.Attempts++
		switch {
		case m.Attempts > script.Fails && !script.Refuse:
			m.Status, succeed = waypost.DeliverySucceeded, true
		case m.Attempts > script.Fails || m.Attempts == j.MaxAttempts:
			m.Status = waypost.DeliveryFailed
		default:
			due = l.over(e.At, j.Schedule[min(m.Attempts, len(j.Schedule))-1])
		}
	}
	e.Messages = append(e.Messages, m)
	what := waypost.WhatFailed
	if succeed {
		what = waypost.WhatSent
	}
	e.goes(what, next)
	return succeed
}

// await waits for the first event that counts, or until the time is over.
func (j modelJourney) await(l modelLead, e *modelEnd) {
	entered, over := e.At, l.over(e.At, j.Timeout)
	for _, event := range l.Events {
		at := entered + event.At
		early := event.At < 0 && (!j.Since || at < 0)
		if !event.Yes || early || at > over {
			continue
		}
		if l.acts(e, max(at, entered)) {
			e.goes(waypost.WhatMatched, modelCheck)
		}
		return
	}
	next := j.OnTimeout
	if next == "" {
		next = modelCheck
	}
	if l.acts(e, over) {
		e.goes(waypost.WhatTimedOut, next)
	}
}

// acts lets what is due then happen, after the pauses that are in the way; or it
// does not happen at all.
func (l modelLead) acts(e *modelEnd, at time.Duration) bool {
	lasts := false
	for i := 0; i < len(l.Pauses) && !lasts; i++ {
		if p := l.Pauses[i]; p.covers(at) {
			// Another one may cover the end of this one.
			at, lasts, i = p.To, p.To == 0, -1
		}
	}
	switch {
	case l.Canceled > 0 && (lasts || l.Canceled <= at):
		e.Status = waypost.EnrollmentCanceled
	case lasts:
		e.Status = waypost.EnrollmentPaused
	default:
		e.At = at
		return true
	}
	return false
}

// over is when a wait is over that begins then and takes so long: between two
// neighbouring ends of pauses, time either passes or stands still.
func (l modelLead) over(begin, wait time.Duration) time.Duration {
	edges := []time.Duration{begin}
	for _, p := range l.Pauses {
		edges = append(edges, p.From, p.To)
	}
	slices.Sort(edges)
	at := begin + wait
	for i, from := range edges[:len(edges)-1] {
		still := slices.ContainsFunc(l.Pauses, func(p modelPause) bool { return p.Shift && p.To > 0 && p.covers(from) })
		if still && begin <= from && from < at {
			at += edges[i+1] - from
		}
	}
	return at
}

// goes writes what the node came to and goes on.
func (e *modelEnd) goes(what, next string) {
	e.Path = append(e.Path, harness.Step{Node: e.Node, What: what})
	e.Node = next
}

// disagreements compares what the API tells of an enrollment and of its messages
// with the model. Attempts that were interrupted may have arrived and used up an
// answer, so that with MaxAttempts a crash may change an outcome.
func (e modelEnd) disagreements(got harness.Enrollment, records []harness.Record) []string {
	var found []string
	say := func(format string, args ...any) {
		found = append(found, got.ID+": "+fmt.Sprintf(format, args...))
	}
	if got.Status != e.Status {
		say("it is %s, the model says %s", got.Status, e.Status)
	}
	var path []harness.Step
	for _, entry := range got.Timeline {
		switch entry.What {
		case waypost.WhatEntered, waypost.WhatDeferred, waypost.WhatPaused, waypost.WhatResumed:
			continue
		case waypost.WhatExited:
			if got.Status == waypost.EnrollmentCanceled {
				continue // the cancel's own entry
			}
		}
		path = append(path, harness.Step{Node: entry.NodeID, What: entry.What})
	}
	if !slices.Equal(path, e.Path) {
		say("its path is %v, the model says %v", path, e.Path)
	}
	left := slices.Clone(e.Messages)
	for _, rec := range records {
		if rec.EnrollmentID != got.ID || len(rec.AttemptLog) == 0 {
			continue
		}
		i := slices.IndexFunc(left, func(m modelMessage) bool { return m.Node == rec.NodeID })
		if i < 0 {
			say("message %s of %s is one too many", rec.MessageID, rec.NodeID)
			continue
		}
		want := left[i]
		left = slices.Delete(left, i, i+1)
		if rec.Status != want.Status && (rec.Status.Final() || want.Status != "") {
			say("the message of %s is %s, the model says %q", rec.NodeID, rec.Status, want.Status)
		}
		interrupted := 0
		for _, a := range rec.AttemptLog {
			if a.ErrorClass == waypost.ClassInterrupted {
				interrupted++
			}
		}
		if seen := len(rec.AttemptLog) - interrupted; seen > want.Attempts || len(rec.AttemptLog) < want.Attempts {
			say("the message of %s took %d attempts and %d interrupted ones, the model says %d", rec.NodeID, seen, interrupted, want.Attempts)
		}
	}
	for _, m := range left {
		say("the message of %s is missing", m.Node)
	}
	return found
}

// modelTotals counts what the model says of many leads.
type modelTotals struct {
	Statuses map[waypost.EnrollmentStatus]int
	Messages map[waypost.DeliveryStatus]int // "" counts the undecided ones
	Attempts int
}

func modelSum(ends []modelEnd) modelTotals {
	sum := modelTotals{map[waypost.EnrollmentStatus]int{}, map[waypost.DeliveryStatus]int{}, 0}
	for _, e := range ends {
		sum.Statuses[e.Status]++
		for _, m := range e.Messages {
			sum.Messages[m.Status]++
			sum.Attempts += m.Attempts
		}
	}
	return sum
}

// modelSample waits 10 minutes in rest, and then up to an hour for the event.
func modelSample() modelJourney {
	return modelJourney{Delay: 10 * time.Minute, Timeout: time.Hour, Schedule: []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}}
}

// TestModel compares the model with what was worked out by hand.
func TestModel(t *testing.T) {
	t.Parallel()
	const s, m = time.Second, time.Minute
	since, stop, bounded := modelSample(), modelSample(), modelSample()
	since.Since = true
	stop.OnTimeout = modelExit
	bounded.MaxAttempts = 3
	comes := func(at time.Duration) []modelEvent { return []modelEvent{{at, true}} }
	answers := func(hello, thanks modelAnswer) map[string]modelAnswer {
		return map[string]modelAnswer{modelHello: hello, modelThanks: thanks}
	}
	shift := func(from, to time.Duration) modelPause { return modelPause{from, to, true} }
	skip := func(from, to time.Duration) modelPause { return modelPause{from, to, false} }

	// What path and messages are in short: the whole way, with hello and bought as
	// they are named, or up to a node.
	const (
		matched  = "hello sent, rest waited, bought matched, check took, thanks sent, end exited"
		timedOut = "hello sent, rest waited, bought timedOut, check took, thanks sent, end exited"
		refused  = "hello failed, rest waited, bought matched, check took, end exited"
		both     = "hello 1 succeeded, thanks 1 succeeded"
		first    = "hello 1 succeeded"
		ended    = waypost.EnrollmentCompleted
	)
	for _, test := range []struct {
		name           string
		journey        modelJourney
		lead           modelLead
		status         waypost.EnrollmentStatus
		at             time.Duration
		path, messages string
	}{
		{"the event comes", modelSample(), modelLead{Events: comes(5 * m)}, ended, 15 * m, matched, both},
		{"it never comes", modelSample(), modelLead{}, ended, 70 * m, timedOut, both},
		{"it comes at the last moment", modelSample(), modelLead{Events: comes(60 * m)}, ended, 70 * m, matched, both},
		{"it comes too late", modelSample(), modelLead{Events: comes(60*m + 1)}, ended, 70 * m, timedOut, both},
		{"it came before", modelSample(), modelLead{Events: comes(-1)}, ended, 70 * m, timedOut, both},
		{"it came before, since enrollment", since, modelLead{Events: comes(-10 * m)}, ended, 10 * m, matched, both},
		{"it came before the enrollment", since, modelLead{Events: comes(-10*m - 1)}, ended, 70 * m, timedOut, both},
		{"another one comes", modelSample(), modelLead{Events: []modelEvent{{5 * m, false}}}, ended, 70 * m, timedOut, both},
		{"another one comes first", modelSample(), modelLead{Events: []modelEvent{{5 * m, false}, {6 * m, true}, {7 * m, true}}}, ended, 16 * m, matched, both},
		{"onTimeout", stop, modelLead{}, ended, 70 * m, "hello sent, rest waited, bought timedOut, end exited", first},
		{"onTimeout is not taken", stop, modelLead{Events: comes(m)}, ended, 11 * m, matched, both},

		{"hello fails twice", modelSample(), modelLead{Answers: answers(modelAnswer{Fails: 2}, modelAnswer{}), Events: comes(m)}, ended, 11*m + 3*s, matched, "hello 3 succeeded, thanks 1 succeeded"},
		{"both fail, the schedule repeats its last", modelSample(), modelLead{Answers: answers(modelAnswer{Fails: 1}, modelAnswer{Fails: 5}), Events: comes(m)}, ended, 11*m + 1*s + 12*s, matched, "hello 2 succeeded, thanks 6 succeeded"},
		{"hello is refused", modelSample(), modelLead{Answers: answers(modelAnswer{Refuse: true}, modelAnswer{}), Events: comes(m)}, ended, 11 * m, refused, "hello 1 failed"},
		{"hello fails, then it is refused", modelSample(), modelLead{Answers: answers(modelAnswer{Fails: 1, Refuse: true}, modelAnswer{}), Events: comes(m)}, ended, 11*m + s, refused, "hello 2 failed"},
		{"thanks is refused", modelSample(), modelLead{Answers: answers(modelAnswer{}, modelAnswer{Refuse: true}), Events: comes(m)}, ended, 11 * m,
			"hello sent, rest waited, bought matched, check took, thanks failed, end exited", "hello 1 succeeded, thanks 1 failed"},
		{"hello is given up", bounded, modelLead{Answers: answers(modelAnswer{Fails: 3}, modelAnswer{}), Events: comes(m)}, ended, 11*m + 3*s, refused, "hello 3 failed"},
		{"hello just makes it", bounded, modelLead{Answers: answers(modelAnswer{Fails: 2}, modelAnswer{}), Events: comes(m)}, ended, 11*m + 3*s, matched, "hello 3 succeeded, thanks 1 succeeded"},

		{"paused in rest, shift", modelSample(), modelLead{Pauses: []modelPause{shift(4*m, 7*m)}, Events: comes(m)}, ended, 14 * m, matched, both},
		{"paused in rest, skip", modelSample(), modelLead{Pauses: []modelPause{skip(4*m, 7*m)}, Events: comes(m)}, ended, 11 * m, matched, both},
		{"paused beyond rest, shift", modelSample(), modelLead{Pauses: []modelPause{shift(4*m, 34*m)}, Events: comes(m)}, ended, 41 * m, matched, both},
		{"paused beyond rest, skip", modelSample(), modelLead{Pauses: []modelPause{skip(4*m, 34*m)}, Events: comes(m)}, ended, 35 * m, matched, both},
		{"paused from the beginning", modelSample(), modelLead{Pauses: []modelPause{shift(0, 3*m)}, Events: comes(m)}, ended, 14 * m, matched, both},
		{"paused between two attempts, shift", modelSample(), modelLead{Answers: answers(modelAnswer{Fails: 2}, modelAnswer{}), Pauses: []modelPause{shift(2*s, 62*s)}, Events: comes(m)}, ended, 11*m + 63*s, matched, "hello 3 succeeded, thanks 1 succeeded"},
		{"paused between two attempts, skip", modelSample(), modelLead{Answers: answers(modelAnswer{Fails: 2}, modelAnswer{}), Pauses: []modelPause{skip(2*s, 62*s)}, Events: comes(m)}, ended, 11*m + 62*s, matched, "hello 3 succeeded, thanks 1 succeeded"},
		{"the event comes in a pause, shift", modelSample(), modelLead{Pauses: []modelPause{shift(20*m, 40*m)}, Events: comes(15 * m)}, ended, 40 * m, matched, both},
		{"the event comes in a pause, skip", modelSample(), modelLead{Pauses: []modelPause{skip(20*m, 40*m)}, Events: comes(15 * m)}, ended, 40 * m, matched, both},
		{"the event comes after what shift gained", modelSample(), modelLead{Pauses: []modelPause{shift(20*m, 40*m)}, Events: comes(80 * m)}, ended, 90 * m, matched, both},
		{"the event comes after more than shift gained", modelSample(), modelLead{Pauses: []modelPause{shift(20*m, 40*m)}, Events: comes(80*m + 1)}, ended, 90 * m, timedOut, both},
		{"skip gains nothing", modelSample(), modelLead{Pauses: []modelPause{skip(20*m, 40*m)}, Events: comes(61 * m)}, ended, 70 * m, timedOut, both},
		{"over in a pause, shift, event at its end", modelSample(), modelLead{Pauses: []modelPause{shift(60*m, 120*m)}, Events: comes(115 * m)}, ended, 125 * m, matched, both},
		{"over in a pause, skip, event at its end", modelSample(), modelLead{Pauses: []modelPause{skip(60*m, 120*m)}, Events: comes(105 * m)}, ended, 120 * m, timedOut, both},
		{"over in a pause, skip, event in time", modelSample(), modelLead{Pauses: []modelPause{skip(60*m, 120*m)}, Events: comes(55 * m)}, ended, 120 * m, matched, both},
		{"two pauses that overlap, shift", modelSample(), modelLead{Pauses: []modelPause{shift(20*m, 40*m), shift(30*m, 50*m)}}, ended, 100 * m, timedOut, both},
		{"two pauses that overlap, shift and skip", modelSample(), modelLead{Pauses: []modelPause{skip(20*m, 40*m), shift(30*m, 50*m)}}, ended, 90 * m, timedOut, both},
		{"a pause within what another one gained", modelSample(), modelLead{Pauses: []modelPause{shift(20*m, 40*m), shift(80*m, 85*m)}}, ended, 95 * m, timedOut, both},
		{"a pause after all that shift gained", modelSample(), modelLead{Pauses: []modelPause{shift(20*m, 40*m), shift(90*m, 99*m)}}, ended, 99 * m, timedOut, both},
		{"two pauses one after the other hold", modelSample(), modelLead{Pauses: []modelPause{skip(5*m, 20*m), skip(20*m, 25*m)}, Events: comes(m)}, ended, 26 * m, matched, both},
		{"paused after the end", modelSample(), modelLead{Pauses: []modelPause{{From: 12 * m}}, Events: comes(m)}, ended, 11 * m, matched, both},

		{"paused for good in rest", modelSample(), modelLead{Pauses: []modelPause{{From: m}}, Events: comes(m)}, waypost.EnrollmentPaused, 0, "hello sent", first},
		{"paused for good after another pause", modelSample(), modelLead{Pauses: []modelPause{shift(m, 20*m), {From: 15 * m}}}, waypost.EnrollmentPaused, 0, "hello sent", first},
		{"paused for good between two attempts", modelSample(), modelLead{Answers: answers(modelAnswer{Fails: 2}, modelAnswer{}), Pauses: []modelPause{{From: 2 * s}}}, waypost.EnrollmentPaused, s, "", "hello 2 "},
		{"paused for good before anything", modelSample(), modelLead{Pauses: []modelPause{{}}}, waypost.EnrollmentPaused, 0, "", ""},
		{"canceled in bought", modelSample(), modelLead{Canceled: 11 * m, Events: comes(2 * m)}, waypost.EnrollmentCanceled, 10 * m, "hello sent, rest waited", first},
		{"canceled while it is paused", modelSample(), modelLead{Canceled: 11 * m, Pauses: []modelPause{{From: m}}}, waypost.EnrollmentCanceled, 0, "hello sent", first},
		{"canceled between two attempts", modelSample(), modelLead{Answers: answers(modelAnswer{Fails: 2}, modelAnswer{}), Canceled: 2 * s}, waypost.EnrollmentCanceled, s, "", "hello 2 canceled"},
		{"canceled after the end", modelSample(), modelLead{Canceled: 12 * m, Events: comes(m)}, ended, 11 * m, matched, both},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := test.journey.end(test.lead)
			path, messages := "", ""
			for i, s := range e.Path {
				path += modelComma(i) + s.Node + " " + s.What
			}
			for i, m := range e.Messages {
				messages += modelComma(i) + fmt.Sprintf("%s %d %s", m.Node, m.Attempts, m.Status)
			}
			if e.Status != test.status || e.At != test.at || path != test.path || messages != test.messages {
				t.Errorf("%s at %s\n     %s\n     %s\nwant %s at %s\n     %s\n     %s", e.Status, e.At, path, messages, test.status, test.at, test.path, test.messages)
			}
		})
	}
}

func modelComma(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// TestModel_disagreements shows that the comparison sees what it is there for, and
// nothing in what crashes and pauses may add.
func TestModel_disagreements(t *testing.T) {
	t.Parallel()
	lead := modelLead{Answers: map[string]modelAnswer{modelHello: {Fails: 1}}, Events: []modelEvent{{time.Minute, true}}}
	want := modelSample().end(lead)
	entry := func(node, what string) waypost.TimelineEntry { return waypost.TimelineEntry{NodeID: node, What: what} }
	fail := waypost.Attempt{Attempt: 1, HTTPStatus: http.StatusServiceUnavailable, ErrorClass: waypost.ClassHTTPStatus}
	cut := waypost.Attempt{Attempt: 2, ErrorClass: waypost.ClassInterrupted}
	ok := waypost.Attempt{Attempt: 3, HTTPStatus: http.StatusOK}
	for _, test := range []struct {
		name  string
		spoil func(e *harness.Enrollment, r *[]harness.Record)
		want  int
	}{
		{"all is well", func(*harness.Enrollment, *[]harness.Record) {}, 0},
		{"an interrupted attempt more", func(_ *harness.Enrollment, r *[]harness.Record) {
			(*r)[0].AttemptLog = []waypost.Attempt{fail, cut, ok}
		}, 0},
		{"an interrupted attempt arrived", func(_ *harness.Enrollment, r *[]harness.Record) { (*r)[0].AttemptLog = []waypost.Attempt{cut, ok} }, 0},
		{"messages of others, and one that was never tried", func(_ *harness.Enrollment, r *[]harness.Record) {
			*r = append(*r, harness.Record{EnrollmentID: "enr_2", NodeID: modelHello, AttemptLog: []waypost.Attempt{ok}}, harness.Record{EnrollmentID: "enr_1", NodeID: modelHello})
		}, 0},
		{"another status", func(e *harness.Enrollment, _ *[]harness.Record) { e.Status = waypost.EnrollmentFailed }, 1},
		{"another path", func(e *harness.Enrollment, _ *[]harness.Record) { e.Timeline[5].What = waypost.WhatTimedOut }, 1},
		{"a node twice", func(e *harness.Enrollment, _ *[]harness.Record) { e.Timeline = append(e.Timeline, e.Timeline[5]) }, 1},
		{"no path", func(e *harness.Enrollment, _ *[]harness.Record) { e.Timeline = nil }, 1},
		{"another outcome", func(_ *harness.Enrollment, r *[]harness.Record) { (*r)[1].Status = waypost.DeliveryFailed }, 1},
		{"an undecided one", func(_ *harness.Enrollment, r *[]harness.Record) { (*r)[1].Status = waypost.DeliveryRetrying }, 1},
		{"an attempt too many", func(_ *harness.Enrollment, r *[]harness.Record) {
			(*r)[0].AttemptLog = []waypost.Attempt{fail, fail, ok}
		}, 1},
		{"an attempt too few", func(_ *harness.Enrollment, r *[]harness.Record) { (*r)[0].AttemptLog = []waypost.Attempt{ok} }, 1},
		{"a message twice", func(_ *harness.Enrollment, r *[]harness.Record) { *r = append(*r, (*r)[0]) }, 1},
		{"a message missing", func(_ *harness.Enrollment, r *[]harness.Record) { *r = (*r)[:1] }, 1},
	} {
		e := harness.Enrollment{ID: "enr_1", Status: waypost.EnrollmentCompleted, Timeline: []waypost.TimelineEntry{
			entry(modelHello, waypost.WhatEntered), entry(modelHello, waypost.WhatDeferred), entry(modelHello, waypost.WhatSent),
			entry(modelRest, waypost.WhatEntered), entry(modelRest, waypost.WhatWaited), entry(modelBought, waypost.WhatMatched),
			entry(modelBought, waypost.WhatPaused), entry(modelBought, waypost.WhatResumed),
			entry(modelCheck, waypost.WhatTook), entry(modelThanks, waypost.WhatSent), entry(modelExit, waypost.WhatExited),
		}}
		records := []harness.Record{
			{MessageID: "msg_1", EnrollmentID: "enr_1", NodeID: modelHello, Status: waypost.DeliverySucceeded, AttemptLog: []waypost.Attempt{fail, ok}},
			{MessageID: "msg_2", EnrollmentID: "enr_1", NodeID: modelThanks, Status: waypost.DeliverySucceeded, AttemptLog: []waypost.Attempt{ok}},
		}
		test.spoil(&e, &records)
		if found := want.disagreements(e, records); len(found) != test.want {
			t.Errorf("%s: %q, want %d", test.name, found, test.want)
		}
	}
	stopped := lead
	stopped.Canceled = 11 * time.Minute // the event comes in the same moment
	e := harness.Enrollment{ID: "enr_1", Status: waypost.EnrollmentCanceled, Timeline: []waypost.TimelineEntry{
		entry(modelHello, waypost.WhatSent), entry(modelRest, waypost.WhatWaited), entry(modelBought, waypost.WhatExited),
	}}
	records := []harness.Record{{EnrollmentID: "enr_1", NodeID: modelHello, Status: waypost.DeliverySucceeded, AttemptLog: []waypost.Attempt{fail, ok}}}
	if found := modelSample().end(stopped).disagreements(e, records); len(found) > 0 {
		t.Errorf("canceled: %q", found)
	}
	sum := modelSum([]modelEnd{want, want, modelSample().end(stopped)})
	if !reflect.DeepEqual(sum, modelTotals{
		map[waypost.EnrollmentStatus]int{waypost.EnrollmentCompleted: 2, waypost.EnrollmentCanceled: 1},
		map[waypost.DeliveryStatus]int{waypost.DeliverySucceeded: 5}, 8,
	}) {
		t.Errorf("totals %+v", sum)
	}
}

// TestModel_script shows that the receiver's script and the journey are what the
// model takes them for.
func TestModel_script(t *testing.T) {
	t.Parallel()
	flaky, refuse := modelAnswer{Fails: 2}, modelAnswer{Refuse: true}
	for i, want := range []int{503, 503, 200, 200} {
		if a := flaky.answer(i + 1); a.Status != want || want == 200 && a.Body != `{"succeed":true,"message":"scripted"}` {
			t.Errorf("attempt %d: %+v", i+1, a)
		}
	}
	if a := refuse.answer(1); a.Status != 200 || a.Body != `{"succeed":false,"message":"scripted"}` {
		t.Errorf("refused: %+v", a)
	}
	for _, e := range []modelEvent{{Yes: true}, {Yes: false}} {
		if amount := fmt.Sprint(e.properties()["amount"]); (amount == "100.01") != e.Yes {
			t.Errorf("%+v has amount %s", e, amount)
		}
	}
	j := modelSample()
	j.Since, j.OnTimeout = true, modelExit
	for _, j := range []modelJourney{modelSample(), j} {
		var d struct {
			Nodes []struct{ ID, Since, OnTimeout, Timeout, Event, Webhook string }
		}
		if err := json.Unmarshal(fmt.Appendf(nil, j.definition(), "whk_1"), &d); err != nil || len(d.Nodes) != 6 {
			t.Fatalf("%d nodes, %v", len(d.Nodes), err)
		}
		bought := d.Nodes[2]
		if bought.ID != modelBought || (bought.Since == "enrollment") != j.Since || bought.OnTimeout != j.OnTimeout || bought.Timeout != "1h0m0s" || bought.Event != modelEventName || d.Nodes[4].Webhook != "whk_1" {
			t.Errorf("%+v", d.Nodes)
		}
	}
}

// TestModel_controls compares the model's arithmetic of pauses with the product's.
func TestModel_controls(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	shifted := 0
	for range 20_000 {
		var l modelLead
		var c waypost.Controls
		for range random.IntN(5) {
			p := modelPause{From: time.Duration(random.IntN(40)), Shift: random.IntN(3) > 0}
			p.To = p.From + 1 + time.Duration(random.IntN(20))
			l.Pauses = append(l.Pauses, p)
			c = append(c, waypost.Control{Kind: waypost.ControlPause, From: began.Add(p.From), Until: began.Add(p.To), Shift: p.Shift})
		}
		begin, wait := time.Duration(random.IntN(40)), 1+time.Duration(random.IntN(40))
		want := c.Due(began.Add(begin), began.Add(begin+wait)).Sub(began)
		if got := l.over(begin, wait); got != want {
			t.Fatalf("a wait from %d for %d with pauses %v is over at %d, Controls say %d", begin, wait, l.Pauses, got, want)
		}
		if want > begin+wait {
			shifted++
		}
	}
	if shifted < 5_000 {
		t.Errorf("only %d waits were shifted", shifted)
	}
}
