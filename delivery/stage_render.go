package delivery

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"waypost"
	"waypost/journey"
)

// renderMessages makes the messages that are not stored: a retry sends what is stored. An
// item fails without a POST if its message cannot be made, or if its last attempt was cut
// off and no other may follow.
func renderMessages(ctx context.Context, r *run, due []*item) ([]*item, error) {
	// What this build cannot step gets no POST: its outcome could not be recorded. Another build knows how.
	if err := r.version.cannotLeave[r.batch.NodeID]; err != nil {
		return nil, err
	}
	subjects, err := r.subjectsOf(ctx, due)
	if err != nil {
		return nil, err
	}
	now := r.now().UTC().Truncate(time.Millisecond)
	var going []*item
	var failed []failure
	for _, it := range due {
		if !it.redelivers() && (it.State.Phase != journey.PhaseSend || it.State.Node != r.batch.NodeID) {
			return nil, fmt.Errorf("enrollment %s sends nothing in phase %q at node %q", it.EnrollmentID, it.State.Phase, it.State.Node)
		}
		it.opening = r.openingOf(it, now)
		if it.interrupted {
			lost := cutOff(it.stored.Open.At)
			if _, again := r.hook.Retry.Next(it.stored.FirstAttemptAt.Add(it.paused), it.stored.Open.Attempt-it.stored.Before, lost, 0); !again {
				failed = append(failed, failure{it, it.stored.Open.Attempt, lost})
				continue
			}
		}
		if it.stored.Body == nil {
			it.opening.Body, err = r.render(subjects[it], it, now)
			if err != nil {
				failed = append(failed, failure{it, it.attempt, waypost.Outcome{ErrorClass: waypost.ClassRender, Message: err.Error(), At: now}})
				continue
			}
		}
		going = append(going, it)
	}
	if len(failed) == 0 {
		return going, nil
	}
	return going, r.recordFailures(ctx, failed)
}

// subjectsOf loads the facts of the messages that are to be rendered.
func (r *run) subjectsOf(ctx context.Context, due []*item) (map[*item]Subject, error) {
	var unrendered []*item
	var items []Item
	for _, it := range due {
		if it.stored.Body == nil {
			unrendered, items = append(unrendered, it), append(items, it.Item)
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	loaded, err := r.Subjects(ctx, r.batch, r.version, items, r.briefing)
	if err != nil {
		return nil, err
	}
	subjects := make(map[*item]Subject, len(items))
	for i, it := range unrendered {
		subjects[it] = loaded[i]
	}
	return subjects, nil
}

// render makes the documented message. The members' order is the type's.
func (r *run) render(s Subject, it *item, now time.Time) ([]byte, error) {
	s.Now = now
	params, err := r.version.Render(r.batch.NodeID, r.hook.Params, s.Facts)
	if err != nil {
		return nil, err
	}
	return waypost.Message{
		MessageID: it.opening.Delivery.MessageID,
		Version:   waypost.MessageVersion,
		Timestamp: now.Format(waypost.TimeFormat),
		UserProfile: waypost.UserProfile{
			OrgID: r.batch.Scope.Org, AppID: s.AppID, AffID: strconv.FormatInt(it.LeadsID, 10),
			UserID: deref(s.Lead.ExternalID), OpenID: deref(s.Lead.OpenID),
		},
		JourneyInfo: waypost.JourneyInfo{
			JourneyID: it.EnrollmentID, JourneyName: s.JourneyName,
			ActionDefID: fmt.Sprintf("%s/%d/%s", r.batch.JourneyID, r.batch.Version, r.batch.NodeID),
			ActionID:    fmt.Sprintf("%s/%d", it.EnrollmentID, it.State.Visit),
		},
		Params: params,
	}.Encode()
}

func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// failure is an attempt that is given up without a POST.
type failure struct {
	*item
	attempt int
	outcome waypost.Outcome
}

func (r *run) recordFailures(ctx context.Context, failed []failure) error {
	if r.ahead {
		return errNotAhead
	}
	records := make([]AttemptRecord, len(failed))
	for i, f := range failed {
		o := f.opening
		records[i] = AttemptRecord{
			Touchpoint: o.Touchpoint, Scope: o.Scope, MessageID: o.Delivery.MessageID, Delivery: o.Delivery,
			Round: max(f.stored.Round, 1), Attempt: f.attempt, Outcome: f.outcome,
		}
		// The first attempt's time only matters where another one may follow.
		var err error
		if f.result, f.next, err = r.settle(&records[i], f.Item, Sending{Before: f.stored.Before}); err != nil {
			return err
		}
	}
	return r.store.RecordAttempts(ctx, records)
}
