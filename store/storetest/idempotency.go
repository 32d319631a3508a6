package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

// claimOf makes a claim whose answer names what was made.
func claimOf(id, token string) *waypost.Claim {
	return &waypost.Claim{ID: id, Token: token, Answer: func(result any) (waypost.Answer, error) {
		return waypost.Answer{Status: 201, Headers: map[string]string{"Location": "/x"}, Body: fmt.Appendf(nil, `{"made":%q}`, fmt.Sprint(result))}, nil
	}}
}

var idempotencyTests = []test{
	{"the answer stands where the effect does", func(t *testing.T, f *fixture) {
		j := waypost.Journey{}
		first := claimOf("key", "one")
		if kept := must[*waypost.Answer](t)(f.ClaimKey(t.Context(), first, []byte("body"))); kept != nil {
			t.Fatalf("an unused key has an answer: %+v", kept)
		}
		second := claimOf("key", "two")
		_, err := f.ClaimKey(t.Context(), second, []byte("body"))
		wantCode(t, err, waypost.CodeConflict) // still running
		j = must[waypost.Journey](t)(f.CreateJourney(waypost.WithClaim(t.Context(), first), scope, "J", []byte(`{}`)))
		if !first.Kept {
			t.Fatal("not kept")
		}
		_, err = f.ClaimKey(t.Context(), second, []byte("other body"))
		wantCode(t, err, waypost.CodeConflict)
		want, _ := first.Answer(j)
		equal(t, "kept", must[*waypost.Answer](t)(f.ClaimKey(t.Context(), second, []byte("body"))), &want)
		ok(t, f.ReleaseKey(t.Context(), first)) // without effect once there is an answer
		ok(t, f.KeepAnswer(t.Context(), first, waypost.Answer{Status: 500}))
		f.clock.Advance(24*time.Hour - time.Microsecond)
		equal(t, "still kept", must[*waypost.Answer](t)(f.ClaimKey(t.Context(), second, []byte("body"))), &want)
		f.clock.Advance(time.Microsecond)
		if kept := must[*waypost.Answer](t)(f.ClaimKey(t.Context(), second, []byte("another body"))); kept != nil {
			t.Fatalf("kept for longer than 24 h: %+v", kept)
		}
	}},
	{"an effect that fails leaves no answer", func(t *testing.T, f *fixture) {
		c := claimOf("key", "one")
		must[*waypost.Answer](t)(f.ClaimKey(t.Context(), c, nil))
		refused := errors.New("refused")
		c.Answer = func(any) (waypost.Answer, error) { return waypost.Answer{}, refused }
		if _, err := f.CreateJourney(waypost.WithClaim(t.Context(), c), scope, "J", []byte(`{}`)); !errors.Is(err, refused) {
			t.Fatal(err)
		}
		equal(t, "journeys", len(must[[]waypost.Journey](t)(f.ListJourneys(t.Context(), scope, waypost.JourneyFilter{}, waypost.Page{}))), 0)
		ok(t, f.ReleaseKey(t.Context(), c))
		if kept := must[*waypost.Answer](t)(f.ClaimKey(t.Context(), claimOf("key", "two"), []byte("b"))); kept != nil {
			t.Fatal("a released key has an answer")
		}
	}},
	{"a claim that is left is free after a minute, and its effect comes too late", func(t *testing.T, f *fixture) {
		slow := claimOf("key", "slow")
		must[*waypost.Answer](t)(f.ClaimKey(t.Context(), slow, []byte("b")))
		f.clock.Advance(time.Minute - time.Microsecond)
		_, err := f.ClaimKey(t.Context(), claimOf("key", "next"), []byte("b"))
		wantCode(t, err, waypost.CodeConflict)
		f.clock.Advance(time.Microsecond)
		next := claimOf("key", "next")
		must[*waypost.Answer](t)(f.ClaimKey(t.Context(), next, []byte("b")))
		_, err = f.CreateJourney(waypost.WithClaim(t.Context(), slow), scope, "slow", []byte(`{}`))
		wantCode(t, err, waypost.CodeConflict)
		ok(t, f.ReleaseKey(t.Context(), slow)) // it is not its key any more
		must[waypost.Journey](t)(f.CreateJourney(waypost.WithClaim(t.Context(), next), scope, "next", []byte(`{}`)))
		list := must[[]waypost.Journey](t)(f.ListJourneys(t.Context(), scope, waypost.JourneyFilter{}, waypost.Page{}))
		if len(list) != 1 || list[0].Name != "next" {
			t.Fatalf("%+v", list)
		}
	}},
	{"one of many at once has the effect", func(t *testing.T, f *fixture) {
		lead := f.lead(t)
		journey, version := f.journey(t), 1
		errs := atOnce(20, func(i int) error {
			c := claimOf("key", fmt.Sprint(i))
			kept, err := f.ClaimKey(t.Context(), c, []byte("b"))
			if err != nil || kept != nil {
				return errors.Join(err, context.Canceled)
			}
			_, err = f.Enroll(waypost.WithClaim(t.Context(), c), scope, waypost.Enrollment{JourneyID: journey, Version: version, LeadsID: lead}, waypost.Reentry{Policy: waypost.ReentryAlways})
			return err
		})
		passed := 0
		for _, err := range errs {
			if err == nil {
				passed++
			}
		}
		equal(t, "passed", passed, 1)
	}},
	{"every effect of a POST keeps its answer", func(t *testing.T, f *fixture) {
		lead := f.lead(t)
		journey, version := f.journey(t), 1
		for name, effect := range map[string]func(ctx context.Context) error{
			"lead": func(ctx context.Context) error {
				_, err := f.CreateLead(ctx, scope, waypost.LeadFields{Name: "A"}, nil)
				return err
			},
			"webhook": func(ctx context.Context) error {
				_, err := f.CreateWebhook(ctx, scope, waypost.Webhook{Name: "w", URL: "https://example.com", Retry: waypost.DefaultRetry()})
				return err
			},
			"publish": func(ctx context.Context) error {
				_, err := f.PublishJourney(ctx, scope, journey, waypost.Publication{Name: "J", Hash: "another", Definition: []byte(`{}`)})
				return err
			},
			"publish the same": func(ctx context.Context) error {
				_, err := f.PublishJourney(ctx, scope, journey, waypost.Publication{Name: "J", Hash: "another", Definition: []byte(`{}`)})
				return err
			},
			"enroll": func(ctx context.Context) error {
				_, err := f.Enroll(ctx, scope, waypost.Enrollment{JourneyID: journey, Version: version, LeadsID: lead}, waypost.Reentry{Policy: waypost.ReentryAlways})
				return err
			},
			"launch": func(ctx context.Context) error {
				_, err := f.CreateLaunch(ctx, scope, waypost.Launch{JourneyID: journey, Version: version, Audience: waypost.Audience{Filter: &waypost.LeadFilter{}}})
				return err
			},
			"event": func(ctx context.Context) error {
				_, err := f.AcceptEvent(ctx, scope, waypost.Event{EventID: "e", Name: "buy", LeadsID: lead})
				return err
			},
			"event again": func(ctx context.Context) error {
				_, err := f.AcceptEvent(ctx, scope, waypost.Event{EventID: "e", Name: "buy", LeadsID: lead})
				return err
			},
			"import": func(ctx context.Context) error {
				rows := func(yield func(waypost.ImportRow, error) bool) {
					yield(waypost.ImportRow{Line: 1, Data: []byte(`{"name":"B"}`)}, nil)
				}
				_, err := f.CreateImport(ctx, scope, waypost.Import{Mode: waypost.ImportCreate, PhoneRegion: "CN"}, rows)
				return err
			},
			"articles": func(ctx context.Context) error {
				_, err := f.ImportArticles(ctx, scope, articleRows(article("a")))
				return err
			},
			"no articles": func(ctx context.Context) error {
				_, err := f.ImportArticles(ctx, scope, articleRows())
				return err
			},
			"events": func(ctx context.Context) error {
				_, err := f.ImportEvents(ctx, scope, eventRows(waypost.Event{EventID: "i", Name: "buy", LeadsID: lead}))
				return err
			},
			"no events": func(ctx context.Context) error {
				_, err := f.ImportEvents(ctx, scope, eventRows())
				return err
			},
			"reindex": func(ctx context.Context) error {
				_, err := f.RequestReindex(ctx, scope)
				return err
			},
		} {
			c := claimOf(strings.ReplaceAll(name, " ", "-"), name)
			must[*waypost.Answer](t)(f.ClaimKey(t.Context(), c, nil))
			if err := effect(waypost.WithClaim(t.Context(), c)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if kept, err := f.ClaimKey(t.Context(), claimOf(c.ID, "other"), nil); err != nil || kept == nil || !c.Kept {
				t.Errorf("%s: %v, %v", name, kept, err)
			}
		}
	}},
}
