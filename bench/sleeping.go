package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// asleep is a journey whose delay is to be set first.
const asleep = `{"name":"Asleep","start":"wait","nodes":[
	{"id":"wait","type":"delay","for":%q,"next":"hello"},
	{"id":"hello","type":"touchpoint","webhook":%%q}]}`

const (
	// Nobody comes to the end of this during a measurement.
	longSleep = "720h"
	// The databases are at rest once their size stays the same this long, or as long as
	// others sleep, where that is less.
	restTime = 5 * time.Second
)

// sleepers makes the leads, puts them to sleep, and then once more, to wake them up. The
// databases never get smaller, so it is done once.
func (b *bench) sleepers(ctx context.Context) error {
	if err := b.importLeads(ctx, groupRest, b.o.sleeping); err != nil {
		return err
	}
	if err := b.warm(ctx, 0); err != nil {
		return err
	}
	b.tell("%s", caseSleeping)
	if err := b.one(ctx, caseSleeping, b.sleep); err != nil {
		return err
	}
	b.tell("%d others sleep for %s", b.o.sleeping, b.o.sleep)
	return b.one(ctx, "waking", b.wake)
}

// sleep puts enrollments into a delay, and looks how much databases and processes grow.
func (b *bench) sleep(ctx context.Context) (outcome, error) {
	n := b.o.sleeping
	t, err := b.prepare(ctx, fmt.Sprintf(asleep, longSleep), script{})
	if err != nil {
		return outcome{}, err
	}
	ours, temporal, _, err := b.atRest(ctx)
	if err != nil {
		return outcome{}, err
	}
	memory := resident(b.stack.watched)
	began := time.Now()
	if _, err := b.enrollEverybody(ctx, t); err != nil {
		return outcome{}, err
	}
	enrolled := time.Since(began)
	oursAfter, temporalAfter, rest, err := b.atRest(ctx) // until then workflows were started
	if err != nil {
		return outcome{}, err
	}
	memoryAfter := resident(b.stack.watched)
	each := func(before, after int64) float64 { return float64(after-before) / float64(n) }
	return outcome{deliveries: n, metrics: []metric{
		{"enrolled/s", float64(n) / enrolled.Seconds()},
		{"asleep/s, with their workflows", float64(n) / rest.Sub(began).Seconds()},
		{"Waypost's database, B each", each(ours, oursAfter)},
		{"Temporal's database, B each", each(temporal, temporalAfter)},
		{"memory of all processes, B each", each(memory, memoryAfter)},
	}}, nil
}

// wake lets enrollments sleep for a short time. They are due within the time that
// enrolling them takes.
func (b *bench) wake(ctx context.Context) (outcome, error) {
	n := b.o.sleeping
	t, err := b.prepare(ctx, fmt.Sprintf(asleep, b.o.sleep), script{})
	if err != nil {
		return outcome{}, err
	}
	due := time.Now().Add(b.o.sleep) // nobody is before
	l, err := b.enrollEverybody(ctx, t)
	if err != nil {
		return outcome{}, err
	}
	if err := b.awaitLaunch(ctx, l, t, n); err != nil {
		return outcome{}, err
	}
	took := time.Since(due)
	return outcome{deliveries: n, metrics: []metric{
		{"from the first one due to the last one recorded, s", took.Seconds()},
		{"woken and delivered/s", float64(n) / took.Seconds()},
	}, check: func() error { return b.check(ctx, t, n) }}, nil
}

// enrollEverybody launches to the sleepers and returns when all are enrolled.
func (b *bench) enrollEverybody(ctx context.Context, t trial) (launched, error) {
	l, err := b.startLaunch(ctx, t.journeyID, groupRest)
	if err != nil {
		return l, err
	}
	return l, until(ctx, launchPoll, caseTime, "not everybody is enrolled", func() (bool, error) {
		var now struct{ Enrolled int }
		err := b.client.Do(ctx, http.MethodGet, "/v1/launches/"+l.LaunchID, nil, &now)
		return now.Enrolled == b.o.sleeping, err
	})
}

// atRest is the size of the databases once nothing is written any more, and since when
// that is so.
func (b *bench) atRest(ctx context.Context) (ours, temporal int64, since time.Time, err error) {
	since = time.Now()
	err = until(ctx, launchPoll, 10*time.Minute, "the databases do not come to rest", func() (bool, error) {
		nowOurs, nowTemporal, err := b.stack.bytes(ctx)
		if nowOurs != ours || nowTemporal != temporal {
			ours, temporal, since = nowOurs, nowTemporal, time.Now()
		}
		return time.Since(since) >= min(restTime, b.o.sleep), err
	})
	return ours, temporal, since, err
}
