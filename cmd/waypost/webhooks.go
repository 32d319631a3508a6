package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
)

const webhooksPath = "/v1/webhooks"

func (c *cli) webhooks() *cobra.Command {
	cmd := &cobra.Command{
		Use: "webhooks", Short: "Manage webhooks: where touchpoints are sent",
		Example: `  waypost webhooks create --name crm --url https://crm.example.com/hook --basic-auth waypost:s3cret
  waypost webhooks test whk_…
  waypost webhooks health whk_…`,
	}
	cmd.AddCommand(c.webhooksCreate(), c.webhooksList(), c.webhooksShow(), c.webhooksHealth(), c.webhooksTest())
	return cmd
}

func (c *cli) webhooksCreate() *cobra.Command {
	var file, name, address, basicAuth string
	var pairs []string
	var timeout int
	cmd := &cobra.Command{
		Use: "create -f FILE | --name NAME --url URL", Short: "Create a webhook",
		Long: `Creates a webhook from a YAML or JSON file with the members of the API, from flags, or from
both: a flag wins over the file.`,
		Example: `  waypost webhooks create --name crm --url https://crm.example.com/hook --basic-auth waypost:s3cret \
    --param greeting='Hello {{ lead.name }}' --param priority:=1

  cat > webhook.yaml <<'END'
  name: crm
  url: https://crm.example.com/hook
  retry: {schedule: [5s, 1m, 1h], giveUpAfter: 24h}
  END
  waypost webhooks create -f webhook.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" && (name == "" || address == "") {
				return usagef("a webhook needs -f FILE, or --name and --url")
			}
			set := map[string]any{}
			if name != "" {
				set["name"] = name
			}
			if address != "" {
				set["url"] = address
			}
			if timeout != 0 {
				set["timeoutMs"] = timeout
			}
			if basicAuth != "" {
				user, password, ok := strings.Cut(basicAuth, ":")
				if !ok {
					return usagef("--basic-auth is USER:PASSWORD")
				}
				set["basicAuth"] = map[string]string{"username": user, "password": password}
			}
			if len(pairs) > 0 {
				values, err := params(pairs)
				if err != nil {
					return err
				}
				set["params"] = values
			}
			if file == "" {
				return c.send(cmd.Context(), http.MethodPost, webhooksPath, set)
			}
			object, err := c.readObject(file)
			if err != nil {
				return err
			}
			body, err := override(object, set)
			if err != nil {
				return err
			}
			return c.send(cmd.Context(), http.MethodPost, webhooksPath, body)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "YAML or JSON file; - is standard input")
	f.StringVar(&name, "name", "", "what people call it")
	f.StringVar(&address, "url", "", "where messages are POSTed")
	f.StringVar(&basicAuth, "basic-auth", "", "USER:PASSWORD that requests carry")
	f.StringArrayVar(&pairs, "param", nil, "a custom parameter: name=text (a template) or name:=number; may stand several times")
	f.IntVar(&timeout, "timeout-ms", 0, "milliseconds that one exchange may take (default 15000)")
	return cmd
}

// override returns an object with some members replaced. Without any it is the
// object as it stands.
func override(object json.RawMessage, set map[string]any) (json.RawMessage, error) {
	if len(set) == 0 {
		return object, nil
	}
	merged := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &merged); err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	for name, value := range set {
		data, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		merged[name] = data
	}
	return json.Marshal(merged)
}

func (c *cli) webhooksList() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "list", Short: "List webhooks", Args: cobra.NoArgs,
		Example: `  waypost webhooks list -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.list(cmd.Context(), webhooksPath, nil, l,
				of("ID", "id"), of("NAME", "name"), of("URL", "url"), of("ENABLED", "enabled"), of("CREATED", "createdAt"))
		},
	}
	l.flags(cmd)
	return cmd
}

func (c *cli) webhooksShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a webhook", Args: cobra.ExactArgs(1),
		Example: `  waypost webhooks show whk_…`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.show(cmd.Context(), webhooksPath+"/"+url.PathEscape(args[0]))
		},
	}
}

// webhookHealth is what a gateway answers about a webhook's receiver.
type webhookHealth struct {
	WebhookID      string
	Enabled        bool
	DisabledReason string
	Breaker        struct{ State, Since, NextProbeAt string }
	Waiting        struct {
		Retrying int
		Reasons  []struct {
			Reason, Since string
			Count         int
		}
	}
	LastHour, LastDay           attemptStats
	LastSuccessAt, SampledSince string
	LastErrors                  []members
}

type attemptStats struct {
	Attempts    int
	SuccessRate *float64
	LatencyMs   *struct{ P50, P95, P99, Max int }
	Errors      map[string]int
}

func (c *cli) webhooksHealth() *cobra.Command {
	return &cobra.Command{
		Use: "health ID", Short: "Show how a webhook and its receiver fare",
		Long: `Shows where the webhook's circuit breaker stands, what waits for it and why, how attempts of the
last hour and the last 24 hours ended and how long they took, and the last errors. What the
receiver wrote is shown by "waypost deliveries show MESSAGE".`,
		Example: `  waypost webhooks health whk_…
  waypost webhooks health whk_… -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.do(cmd.Context(), http.MethodGet, webhooksPath+"/"+url.PathEscape(args[0])+"/health", nil, nil)
			if err != nil {
				return err
			}
			if c.output == outputJSON {
				return c.printJSON(json.RawMessage(a.body))
			}
			var h webhookHealth
			if err := json.Unmarshal(a.body, &h); err != nil {
				return fmt.Errorf("read the health: %w", err)
			}
			return c.printHealth(h)
		},
	}
}

func (c *cli) printHealth(h webhookHealth) error {
	t := c.table()
	t.row("webhook", clean(h.WebhookID))
	enabled := "yes"
	if !h.Enabled {
		enabled = "no"
		if h.DisabledReason != "" {
			enabled = "no, disabled because of " + clean(h.DisabledReason)
		}
	}
	t.row("enabled", enabled)
	breaker := clean(h.Breaker.State)
	if h.Breaker.Since != "" {
		breaker += " since " + clean(h.Breaker.Since)
	}
	if h.Breaker.NextProbeAt != "" {
		breaker += ", next probe " + clean(h.Breaker.NextProbeAt)
	}
	t.row("breaker", breaker)
	for _, r := range h.Waiting.Reasons {
		t.row("deferred", fmt.Sprintf("%s for %s, since %s", count(r.Count), clean(r.Reason), clean(r.Since)))
	}
	t.row("retrying", count(h.Waiting.Retrying))
	t.row("last hour", h.LastHour.String())
	t.row("last 24 hours", h.LastDay.String())
	if h.LastSuccessAt != "" {
		t.row("last success", clean(h.LastSuccessAt))
	}
	if h.SampledSince != "" {
		t.row("counted since", clean(h.SampledSince)+", of the newest messages only")
	}
	if err := t.flush(); err != nil || len(h.LastErrors) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(c.stdout); err != nil {
		return err
	}
	return c.printRows(h.LastErrors,
		of("LAST ERRORS", "at"), of("MESSAGE", "messageId"), of("ATTEMPT", "attempt"), of("CLASS", "errorClass"), of("STATUS", "httpStatus"), of("MS", "durationMs"))
}

// count shows a number of deliveries, which a gateway counts up to a bound.
func count(n int) string {
	if n >= waypost.MaxWaiting {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

func (s attemptStats) String() string {
	if s.Attempts == 0 || s.SuccessRate == nil || s.LatencyMs == nil {
		return "no attempts"
	}
	text := fmt.Sprintf("%d attempts, %.4g%% succeeded; p50 %d ms, p95 %d ms, p99 %d ms, max %d ms",
		s.Attempts, 100**s.SuccessRate, s.LatencyMs.P50, s.LatencyMs.P95, s.LatencyMs.P99, s.LatencyMs.Max)
	for i, class := range slices.Sorted(maps.Keys(s.Errors)) {
		text += map[bool]string{true: "; ", false: ", "}[i == 0] + fmt.Sprintf("%d %s", s.Errors[class], clean(class))
	}
	return text
}

func (c *cli) webhooksTest() *cobra.Command {
	return &cobra.Command{
		Use: "test ID", Short: "Send one test message and show what came back",
		Long:    "Sends one test message to the webhook and shows what came back. It fails if the receiver\ndid not take the message.",
		Example: `  waypost webhooks test whk_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.do(cmd.Context(), http.MethodPost, webhooksPath+"/"+url.PathEscape(args[0])+"/test", nil, nil)
			if err != nil {
				return err
			}
			outcome, err := a.object()
			if err != nil {
				return err
			}
			if err := c.printAnswer(a); err != nil {
				return err
			}
			if outcome.text("succeed") != "true" {
				return errors.New("the receiver did not take the message")
			}
			return nil
		},
	}
}
