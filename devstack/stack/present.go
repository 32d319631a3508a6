package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"waypost"
	"waypost/client"
	"waypost/config"
	"waypost/devstack/datadir"
	"waypost/devstack/demo"
	"waypost/devstack/temporal"
	"waypost/signature"
	"waypost/workflows"
)

const (
	// demoTimeout bounds the demo's preparation and the wait for its message.
	demoTimeout = 30 * time.Second
	// searchTimeout bounds the wait until the demo's articles are found.
	searchTimeout = 30 * time.Second
)

// present runs the demo, writes the profile and prints the banner.
func (s *Stack) present(ctx context.Context, o Options, cfg config.Config, state datadir.State, began time.Time) error {
	var shown bytes.Buffer
	if !o.NoDemo && s.has(Temporal) && s.has(Receiver) && s.has(Gateway) && s.has(Worker) {
		if err := s.demo(ctx, &state, &shown); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			// The stack runs all the same.
			s.log.Warn("the demo could not run", "error", err)
			fmt.Fprintf(&shown, "\nThe demo could not run: %s\n", err)
		}
	}
	s.Profile.WebhookID, s.Profile.JourneyID = state.WebhookID, state.JourneyID
	if err := s.dir.WriteJSON(datadir.ProfileFile, s.Profile); err != nil {
		return err
	}
	s.banner(cfg, state, &shown, time.Since(began))
	return nil
}

func (s *Stack) demo(ctx context.Context, state *datadir.State, out io.Writer) error {
	caller := client.New(s.Profile.URL, signature.Key{AccessKey: s.Profile.AccessKey, SecretKey: s.Profile.SecretKey})
	caller.HTTP.Transport = &http.Transport{} // its connections end with the demo
	defer caller.HTTP.CloseIdleConnections()
	if err := s.demoJourney(ctx, caller, state, out); err != nil {
		return err
	}
	return s.demoSearch(ctx, caller, *state, out)
}

// demoJourney makes the demo's data and sends its first lead on its journey.
func (s *Stack) demoJourney(ctx context.Context, caller *client.Client, state *datadir.State, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	unfinished, err := s.temporal.Running(ctx, workflows.TypeJourney)
	if err != nil {
		s.log.Warn("count unfinished journeys", "error", err)
	}
	if err := s.step("Demo data", func() error {
		hook := demo.Hook{URL: s.Profile.Receiver + demoPath, User: state.ReceiverUser, Password: state.ReceiverPassword}
		data, added, err := demo.Prepare(ctx, caller, state.Data, hook)
		if err != nil {
			return fmt.Errorf("make the demo's data: %w", err)
		}
		state.Data = data
		if !added {
			fmt.Fprintf(out, "\nThe demo's webhook, journey, leads and articles are those of the former start; journey workflows that go on: %d.\n", unfinished)
		}
		return s.dir.SaveState(*state)
	}); err != nil {
		return err
	}
	enrolled, running, err := demo.Enroll(ctx, caller, state.Data)
	if err != nil {
		return fmt.Errorf("enroll the demo's lead: %w", err)
	}
	if running {
		fmt.Fprintf(out, "Lead %d is still on its way through %q: its re-entry policy is afterExit, so no new enrollment was made.\n", state.LeadsIDs[0], demo.JourneyName)
		return nil
	}
	s.EnrollmentID = enrolled.ID
	fmt.Fprintf(out, "\nLead %d was enrolled in the journey %q: %s\n", state.LeadsIDs[0], demo.JourneyName, enrolled.ID)
	var delivery demo.Delivery
	if err := s.step("Demo message", func() error {
		delivery, err = demo.Await(ctx, caller, enrolled.ID, demo.Hello)
		return err
	}); err != nil {
		// The stack itself runs, so that the cause can be looked for.
		fmt.Fprintf(out, "%s\n", err)
		return nil
	}
	show(out, delivery)
	fmt.Fprintf(out, "In the Temporal Web UI:\n  %s\n", enrolled.TemporalURL)
	return nil
}

// demoSearch issues the profile's search token and shows a hit.
func (s *Stack) demoSearch(ctx context.Context, caller *client.Client, state datadir.State, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	token, err := demo.SearchToken(ctx, caller, state.Data)
	if err != nil {
		return fmt.Errorf("issue a search token: %w", err)
	}
	s.Profile.TenantID, s.Profile.SearchToken = state.TenantID, token
	var hit demo.Hit
	if err := s.step("Demo search", func() error {
		hit, err = demo.Search(ctx, caller, token, state.Data, demo.SearchKeyword)
		return err
	}); err != nil {
		fmt.Fprintf(out, "\nThe demo's articles could not be searched: %s\n", err)
		return nil
	}
	fmt.Fprintf(out, "\nA search for %s in the demo's articles finds first:\n  %s\n  %s\n", demo.SearchKeyword,
		hit.NameHighlight, strings.Join(strings.Fields(hit.SearchHighlight), " "))
	return nil
}

// show prints a delivery: the message and the receiver's answer.
func show(out io.Writer, d demo.Delivery) {
	sent := d.Request
	var whole struct{ Body json.RawMessage }
	if err := json.Unmarshal(sent, &whole); err == nil && len(whole.Body) > 0 {
		sent = whole.Body
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, sent, "  ", "  "); err != nil {
		pretty.Reset()
		pretty.Write(sent)
	}
	fmt.Fprintf(out, "Its first touchpoint was POSTed to the demo receiver:\n  %s\n", pretty.String())
	answer := d.Message
	if n := len(d.AttemptLog); n > 0 && d.AttemptLog[n-1].ResponseExcerpt != "" {
		answer = d.AttemptLog[n-1].ResponseExcerpt
	}
	verdict := "delivered"
	if d.Status != waypost.DeliverySucceeded {
		verdict = "not delivered (" + string(d.Status) + ")"
	}
	fmt.Fprintf(out, "The receiver answered HTTP %d in %d ms: %s\n  => %s\n", d.HTTPStatus, d.DurationMs, strings.TrimSpace(answer), verdict)
}

// banner prints the addresses of the parts that run, and what to try next.
func (s *Stack) banner(cfg config.Config, state datadir.State, shown *bytes.Buffer, took time.Duration) {
	_, _ = shown.WriteTo(s.out)
	fmt.Fprintf(s.out, "\nWaypost is up after %.1f s. Ctrl-C stops it; a second start continues.\n\n", took.Seconds())
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	row := func(p Part, name, format string, args ...any) {
		if s.has(p) {
			fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
		}
	}
	if s.hasConsole() {
		fmt.Fprintf(w, "  Console\t%s\n", s.Profile.Console)
		fmt.Fprintf(w, "  Sign in once by\t%s/sign-in/link?token=%s\n", s.Profile.Console, s.SignIn)
	}
	row(Gateway, "Gateway", "%s", s.Profile.URL)
	row(Temporal, "Temporal Web UI", "%s", s.Profile.TemporalUI)
	row(Temporal, "Temporal", "%s, namespace default", s.Profile.TemporalAddress)
	row(Receiver, "Demo receiver", "%s, what it got: %[1]s/messages", s.Profile.Receiver)
	if s.has(Gateway) || s.has(Worker) {
		fmt.Fprintf(w, "  Admin\thttp://%s/readyz\n", temporal.Reachable(cfg.Admin.Addr))
	}
	if !s.has(Temporal) && (s.has(Gateway) || s.has(Worker)) {
		fmt.Fprintf(w, "  Temporal\tnot started here, expected at %s\n", s.Profile.TemporalAddress)
	}
	if !s.has(Redis) && s.has(Gateway) {
		fmt.Fprintf(w, "  Redis\tnot started here, expected where WAYPOST_REDIS_URL says (or on %s)\n", temporal.Reachable(cfg.Dev.RedisAddr))
	}
	row(Redis, "Redis stand-in", "redis://%s/0", temporal.Reachable(cfg.Dev.RedisAddr))
	fmt.Fprintf(w, "  Data\t%s\n", s.dir.Path())
	fmt.Fprintf(w, "  Client profile\t%s\n", s.dir.File(datadir.ProfileFile))
	fmt.Fprintf(w, "  Settings to join\t%s\n", s.dir.File(datadir.EnvFile))
	fmt.Fprintf(w, "  Log\t%s\n", s.dir.File(datadir.LogFile))
	_ = w.Flush()
	fmt.Fprintf(s.out, "\nTry next, in another terminal:\n")
	for _, line := range s.hints(state) {
		fmt.Fprintf(s.out, "  %s\n", line)
	}
	fmt.Fprintln(s.out)
}

// hints are commands to type: those that start the missing roles, or else those that show the demo.
func (s *Stack) hints(state datadir.State) []string {
	if !s.has(Gateway) || !s.has(Worker) {
		join := ". " + datadir.Quote(s.dir.File(datadir.EnvFile)) + " && bin/waypost "
		var out []string
		for _, p := range []Part{Gateway, Worker} {
			if !s.has(p) {
				out = append(out, join+string(p))
			}
		}
		return out
	}
	out := []string{"export WAYPOST_PROFILE=" + datadir.Quote(s.dir.File(datadir.ProfileFile))}
	if s.EnrollmentID != "" {
		out = append(out, "bin/waypost enrollments show "+s.EnrollmentID)
	}
	out = append(out, "bin/waypost deliveries list")
	if len(state.LeadsIDs) > 1 {
		out = append(out, fmt.Sprintf("bin/waypost journeys start %s --lead %d", state.JourneyID, state.LeadsIDs[1]))
	}
	if s.Profile.SearchToken != "" {
		out = append(out, "bin/waypost articles search "+demo.SearchKeyword, "curl -sG "+datadir.Quote(s.Profile.URL+"/api/v1/articles/search")+
			` -H "Authorization: Bearer $(sed -n 's/.*"searchToken": "\(.*\)",/\1/p' "$WAYPOST_PROFILE")"`+
			" -d tenant_id="+s.Profile.TenantID+" -d from=frontend --data-urlencode keywords="+demo.SearchKeyword)
	}
	return out
}
