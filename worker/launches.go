package worker

import (
	"context"
	"errors"
	"time"

	"waypost"
)

// launchesOutbox is where accepted launches wait for their workflow.
type launchesOutbox interface {
	ClaimLaunchCohorts(ctx context.Context, limit int) ([]waypost.Cohort, error)
	UnstartedLaunches(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Launch, error)
	AgedLaunches(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Launch, error)
	MarkLaunchStarted(ctx context.Context, id string) error
	CanceledSchedules(ctx context.Context, limit int) (ids []string, err error)
	MarkScheduleDeleted(ctx context.Context, id string) error
	AnnounceEndedLaunches(ctx context.Context) (more bool, err error)
	ReleaseHeld(ctx context.Context, after string) (next string, err error)
}

const (
	// launched is the number of loops of launches: those have loops of their own, so that
	// a launch of a million does not keep one enrollment waiting.
	launched = 2
	// cohortsAtOnce is how many cohorts of launches one transaction claims.
	cohortsAtOnce = 2
	// winnersEvery is how late a launch that holds leads until an arm has won may hear of it.
	winnersEvery = 10 * time.Second
)

// startLaunched starts cohorts that a launch has made.
func (p *Pump) startLaunched(ctx context.Context) (more bool, err error) {
	yields := lately(&p.single)
	n := cohortsAtOnce
	if yields {
		n = 1
	}
	cohorts, err := p.outbox.ClaimLaunchCohorts(ctx, n)
	if err != nil || len(cohorts) == 0 {
		return false, err
	}
	p.launch.Store(time.Now().UnixMilli())
	began := time.Now()
	if err := p.startCohorts(ctx, cohorts); err != nil {
		return false, err
	}
	if yields {
		yield(ctx, launchYield, time.Since(began))
	}
	return true, nil
}

// startLaunches starts launches, and renews the Schedules of those that recur: new ones
// first, of which none waits for more than staleLimit renewals.
func (p *Pump) startLaunches(ctx context.Context) (more bool, err error) {
	launches := unstarted[waypost.Launch]{
		kind: KindLaunch, find: p.outbox.UnstartedLaunches, id: func(l waypost.Launch) string { return l.ID },
		start: p.starter.StartLaunch, mark: p.outbox.MarkLaunchStarted,
	}
	if more, err = launches.startAll(ctx, p); err != nil || more {
		return more, err
	}
	renewals := launches
	renewals.kind, renewals.find = KindRenewal, p.outbox.AgedLaunches
	return renewals.startAll(ctx, p)
}

// deleteSchedules ends what opens the occurrences of launches that are canceled.
func (p *Pump) deleteSchedules(ctx context.Context) (more bool, err error) {
	ids, err := p.outbox.CanceledSchedules(ctx, staleLimit)
	if err != nil {
		return false, err
	}
	var errs error
	for _, id := range ids {
		err := p.limited(ctx, func(ctx context.Context) error { return p.starter.DeleteSchedule(ctx, id) })
		if err == nil {
			err = p.outbox.MarkScheduleDeleted(ctx, id)
		}
		errs = errors.Join(errs, err)
	}
	return len(ids) == staleLimit, errs
}

// announceEndedLaunches notes which launches have ended, for those who are told of it.
func (p *Pump) announceEndedLaunches(ctx context.Context) (more bool, err error) {
	return p.outbox.AnnounceEndedLaunches(ctx)
}

// releaseHeld tells launches that hold leads that an arm has won.
func (p *Pump) releaseHeld(ctx context.Context) (more bool, err error) {
	for after := ""; ; {
		if after, err = p.outbox.ReleaseHeld(ctx, after); err != nil || after == "" {
			return false, err
		}
	}
}
