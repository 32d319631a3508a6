package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"waypost"
)

// enrollmentsOutbox is where accepted enrollments wait for their workflow.
type enrollmentsOutbox interface {
	Enroll(ctx context.Context, by waypost.Caller, e waypost.Enrollment, r waypost.Reentry) (waypost.Enrollment, error)
	EnrollClaimed(ctx context.Context, by waypost.Caller, e waypost.Enrollment, r waypost.Reentry) (waypost.Enrollment, *waypost.Cohort, error)
	AcceptEvent(ctx context.Context, by waypost.Caller, e waypost.Event) (inserted bool, err error)
	AcceptEventClaimed(ctx context.Context, by waypost.Caller, e waypost.Event) (inserted bool, claimed []waypost.Cohort, err error)
	ClaimEnrollments(ctx context.Context, claimedBefore time.Time) (*waypost.Cohort, error)
	FormCohort(ctx context.Context, claimed waypost.Cohort) (waypost.Cohort, error)
	StaleCohorts(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Cohort, error)
	MarkStarted(ctx context.Context, cohortIDs ...string) error
}

const (
	// groupTime is how long enrollments that are in no hurry wait for others of their
	// journey version, to share a workflow: nearly all that Temporal does for a workflow is
	// the same whatever it drives.
	groupTime = 300 * time.Millisecond
	// quietTime is how long nobody else enrolls before one that does not wait for others: a
	// quiet system gives each enrollment a workflow of its own.
	quietTime = 500 * time.Millisecond
	// shareTime is how long others wait for a batch that is being sent, to share the next one.
	shareTime = 50 * time.Millisecond
	// sendTime is how long the start of a workflow waits for its first messages.
	sendTime = time.Second
	// starters is how many workflows of enrollments are started at a time.
	starters = 2
	// maxClaimed is how many enrollments a pump holds before it leaves others to other pumps.
	maxClaimed = 1000
)

// Engine sends first messages; it is a *delivery.Engine.
type Engine interface {
	// SendAhead sends the first messages of claimed enrollments, if it can. It tells
	// whether their workflow is in no hurry: messages may have been sent, or the journey
	// begins with a wait for a time. If others are to share the workflow, retries are coalesced.
	SendAhead(ctx context.Context, claimed waypost.Cohort, coalesce bool) (canWait bool)
	// Failed is called with what the database or Temporal could not do.
	Failed(error)
}

// Enroll stores an enrollment of the API and sees to it that it is started. It is claimed as
// it is stored, but for when Temporal is away: then it waits in the database, and the pump
// claims some at a time to try.
func (p *Pump) Enroll(ctx context.Context, by waypost.Caller, e waypost.Enrollment, r waypost.Reentry) (waypost.Enrollment, error) {
	if p.refused.Load() > 0 {
		return p.outbox.Enroll(ctx, by, e, r)
	}
	e, claimed, err := p.outbox.EnrollClaimed(ctx, by, e, r)
	switch {
	case claimed != nil:
		p.toSend.add(*claimed)
	case err == nil:
		p.Enrolled()
	}
	return e, err
}

// AcceptEvent stores an event, and sees to it that the enrollments which it begins are started,
// as Enroll does.
func (p *Pump) AcceptEvent(ctx context.Context, by waypost.Caller, e waypost.Event) (inserted bool, err error) {
	if p.refused.Load() > 0 {
		return p.outbox.AcceptEvent(ctx, by, e)
	}
	inserted, claimed, err := p.outbox.AcceptEventClaimed(ctx, by, e)
	if err != nil {
		return inserted, err
	}
	for _, c := range claimed {
		p.toSend.add(c)
	}
	return inserted, nil
}

// claimEnrollments claims what nobody has claimed as it was stored.
func (p *Pump) claimEnrollments(ctx context.Context) (more bool, err error) {
	held := p.toSend.size() + p.toStart.size()
	if held >= maxClaimed || held > 0 && p.refused.Load() > 0 {
		return false, nil
	}
	claimed, err := p.outbox.ClaimEnrollments(ctx, p.Now().Add(-staleAfter))
	if err != nil || claimed == nil {
		return false, err
	}
	p.toSend.add(*claimed)
	return true, nil
}

// sendEnrollments sends first messages of what is claimed, until ctx ends. What is claimed
// while a batch is being sent shares the next one, which costs less than one for each.
func (p *Pump) sendEnrollments(ctx context.Context) {
	for {
		claimed, ok := p.toSend.take(ctx)
		if !ok {
			return
		}
		now := time.Now()
		last := time.UnixMilli(p.single.Swap(now.UnixMilli()))
		alone := len(claimed.Members) == 1 && now.Sub(last) > quietTime
		sent := make(chan struct{})
		p.sending.Go(func() {
			defer close(sent)
			if canWait := p.sendAhead(ctx, claimed, !alone); canWait && !alone {
				p.group(claimed)
			} else {
				p.toStart.add(claimed)
			}
		})
		sleep(ctx, shareTime, sent)
	}
}

// sendAhead sends first messages, unless Temporal is away. It returns what Engine.SendAhead
// does, or true if that takes too long.
func (p *Pump) sendAhead(ctx context.Context, claimed waypost.Cohort, coalesce bool) (canWait bool) {
	if p.refused.Load() > 0 {
		return false
	}
	done := make(chan bool, 1)
	p.sending.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		done <- p.engine.SendAhead(ctx, claimed, coalesce)
	})
	select {
	case canWait := <-done:
		return canWait
	case <-time.After(sendTime):
		return true
	}
}

// startLeft starts what was claimed and left.
func (p *Pump) startLeft(ctx context.Context) (more bool, err error) {
	cohorts, err := p.outbox.StaleCohorts(ctx, p.Now().Add(-staleAfter), staleLimit)
	if err != nil {
		return false, err
	}
	return len(cohorts) == staleLimit, p.startCohorts(ctx, cohorts)
}

// startCohorts starts each of the cohorts: one that Temporal refuses must not
// keep the others from starting.
func (p *Pump) startCohorts(ctx context.Context, cohorts []waypost.Cohort) error {
	var errs error
	var started []string
	for _, cohort := range cohorts {
		if err := p.limited(ctx, func(ctx context.Context) error { return p.starter.StartCohort(ctx, cohort) }); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		p.observe.Started(KindEnrollment, len(cohort.Members))
		started = append(started, cohort.ID)
	}
	if len(started) == 0 {
		return errs
	}
	err := p.limited(ctx, func(ctx context.Context) error { return p.outbox.MarkStarted(ctx, started...) })
	if waypost.CodeOf(err) == waypost.CodeNotFound { // one has ended, and is gone
		err = nil
	}
	return errors.Join(errs, err)
}

// grouping are claimed enrollments that wait for others of their journey version.
type grouping struct {
	mu     sync.Mutex
	groups map[version]*waypost.Cohort
}

type version struct {
	journeyID string
	number    int
}

func versionOf(c waypost.Cohort) version { return version{c.Version.JourneyID, c.Version.Version} }

// group starts a workflow for the enrollments and those that come within groupTime, or as
// soon as they are waypost.MaxCohort.
func (p *Pump) group(claimed waypost.Cohort) {
	p.grouping.mu.Lock()
	defer p.grouping.mu.Unlock()
	of := versionOf(claimed)
	group := p.grouping.groups[of]
	if group != nil && len(group.Members)+len(claimed.Members) > waypost.MaxCohort {
		p.startGroup(group)
		group = nil
	}
	if group == nil {
		group = &waypost.Cohort{Version: claimed.Version}
		p.grouping.groups[of] = group
		time.AfterFunc(groupTime, func() {
			p.grouping.mu.Lock()
			defer p.grouping.mu.Unlock()
			if p.grouping.groups[of] == group { // it was not full before
				p.startGroup(group)
			}
		})
	}
	if group.Members = append(group.Members, claimed.Members...); len(group.Members) == waypost.MaxCohort {
		p.startGroup(group)
	}
}

func (p *Pump) startGroup(group *waypost.Cohort) {
	delete(p.grouping.groups, versionOf(*group))
	p.toStart.add(*group)
}

// startEnrollments starts workflows of claimed enrollments, until ctx ends.
func (p *Pump) startEnrollments(ctx context.Context) {
	for {
		claimed, ok := p.toStart.take(ctx)
		if !ok {
			return
		}
		// A start that has begun is finished while the pump stops: another pump would find
		// its enrollments staleAfter later.
		if err := p.startClaimed(context.WithoutCancel(ctx), claimed); err != nil {
			// They are not lost: they are claimed again after a while, or their cohort is
			// found to be left.
			p.retryIn(ctx, "start enrollments", int(p.refused.Add(1)), err)
		}
	}
}

// startClaimed forms a cohort of claimed enrollments and starts its workflow.
func (p *Pump) startClaimed(ctx context.Context, claimed waypost.Cohort) error {
	var cohort waypost.Cohort
	err := p.limited(ctx, func(ctx context.Context) (err error) {
		cohort, err = p.outbox.FormCohort(ctx, claimed)
		return err
	})
	if err != nil || len(cohort.Members) == 0 {
		return err
	}
	if err := p.startCohorts(ctx, []waypost.Cohort{cohort}); err != nil {
		return err
	}
	p.refused.Store(0)
	return nil
}

// startClaimedLast starts what is claimed as the pump stops: another pump would find it
// staleAfter later.
func (p *Pump) startClaimedLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	p.grouping.mu.Lock()
	for _, group := range p.grouping.groups {
		p.startGroup(group)
	}
	p.grouping.mu.Unlock()
	for _, claimed := range append(p.toStart.takeAll(), p.toSend.takeAll()...) {
		if err := p.startClaimed(ctx, claimed); err != nil {
			p.log.Warn("enrollments could not be started before the end; others start them", "enrollments", len(claimed.Members), "error", err)
		}
	}
}

// queue holds claimed enrollments, by journey version, until somebody takes them.
type queue struct {
	some chan struct{} // has a value if there may be some

	mu      sync.Mutex
	cohorts []waypost.Cohort
	members int
}

// add adds enrollments to those of their version, or, if they would be more than
// waypost.MaxCohort, as another cohort.
func (q *queue) add(c waypost.Cohort) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.wake()
	q.members += len(c.Members)
	for i := range q.cohorts {
		with := &q.cohorts[i]
		if versionOf(*with) == versionOf(c) && len(with.Members)+len(c.Members) <= waypost.MaxCohort {
			with.Members = append(with.Members, c.Members...)
			return
		}
	}
	q.cohorts = append(q.cohorts, c)
}

// wake wakes one of those who wait in take.
func (q *queue) wake() {
	if len(q.cohorts) == 0 {
		return
	}
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// take waits for enrollments, and takes the oldest and those that share its cohort; false
// once ctx has ended.
func (q *queue) take(ctx context.Context) (waypost.Cohort, bool) {
	for ctx.Err() == nil {
		select {
		case <-q.some:
		case <-ctx.Done():
			return waypost.Cohort{}, false
		}
		if c, ok := q.takeOne(); ok {
			return c, true
		}
	}
	return waypost.Cohort{}, false
}

func (q *queue) takeOne() (c waypost.Cohort, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.cohorts) == 0 {
		return c, false
	}
	c, q.cohorts = q.cohorts[0], q.cohorts[1:]
	q.members -= len(c.Members)
	q.wake()
	return c, true
}

func (q *queue) takeAll() []waypost.Cohort {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.cohorts
	q.cohorts, q.members = nil, 0
	return all
}

func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.members
}
