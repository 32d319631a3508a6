package main

import (
	"bytes"
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
	"waypost/api"
)

const webhooksPath = "/v1/webhooks"

func webhookPath(id string) string { return webhooksPath + "/" + url.PathEscape(id) }

func (c *cli) webhooks() *cobra.Command {
	return group(&cobra.Command{
		Use: "webhooks", Short: "Manage webhooks: where touchpoints are sent",
		Example: `  waypost webhooks create --name crm --url https://crm.example.com/hook --basic-auth waypost:s3cret
  waypost webhooks test whk_…
  waypost webhooks health whk_…
  waypost webhooks history whk_… --every day`,
	}, c.webhooksCreate(), c.webhooksUpdate(), c.webhooksList(), c.webhooksShow(), c.webhooksHealth(), c.webhooksHistory(), c.webhooksTest())
}

// webhookInput is a webhook, or a change of one, as flags and a file say it.
type webhookInput struct {
	file, name, url, basicAuth, channel   string
	needsConsent                          bool
	caFile, clientCertFile, clientKeyFile string
	params                                []string
	timeout                               int
}

func (in *webhookInput) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&in.file, "file", "f", "", "YAML or JSON file; - is standard input")
	f.StringVar(&in.name, "name", "", "what people call it")
	f.StringVar(&in.url, "url", "", "where messages are POSTed")
	f.StringVar(&in.basicAuth, "basic-auth", "", "USER:PASSWORD that requests carry")
	f.StringVar(&in.caFile, "ca-file", "", "PEM file: the only authorities that the receiver's certificate may come from")
	f.StringVar(&in.clientCertFile, "client-cert-file", "", "PEM file: the certificate to show, intermediate ones behind it")
	f.StringVar(&in.clientKeyFile, "client-key-file", "", "PEM file: its private key, without a passphrase")
	f.StringArrayVar(&in.params, "param", nil, "a custom parameter: name=text (a template) or name:=number; may stand several times")
	f.StringVar(&in.channel, "channel", "", "what it sends by, such as sms: suppressions and consents are of a channel")
	f.BoolVar(&in.needsConsent, "requires-consent", false, "send touchpoints only to leads that have agreed to the channel")
	f.IntVar(&in.timeout, "timeout-ms", 0, "milliseconds that one exchange may take (default 15000)")
	notEmpty(cmd, "file", "name", "url", "basic-auth", "channel", "ca-file", "client-cert-file", "client-key-file")
}

// set returns the members that flags of cmd name.
func (in *webhookInput) set(cmd *cobra.Command, c *cli) (map[string]any, error) {
	set := map[string]any{}
	if in.name != "" {
		set["name"] = in.name
	}
	if in.url != "" {
		set["url"] = in.url
	}
	if in.channel != "" {
		set["channel"] = in.channel
	}
	if cmd.Flags().Changed("requires-consent") {
		set["requiresConsent"] = in.needsConsent
	}
	if in.timeout != 0 {
		set["timeoutMs"] = in.timeout
	}
	if in.basicAuth != "" {
		user, password, ok := strings.Cut(in.basicAuth, ":")
		if !ok {
			return nil, usagef("--basic-auth is USER:PASSWORD")
		}
		set["basicAuth"] = map[string]any{"username": user, "password": password}
	}
	if params, err := typedPairs("--param", in.params); err != nil {
		return nil, err
	} else if len(params) > 0 {
		set["params"] = params
	}
	tls := map[string]any{}
	for member, file := range map[string]string{"caCertificate": in.caFile, "clientCertificate": in.clientCertFile, "clientKey": in.clientKeyFile} {
		if file == "" {
			continue
		}
		text, err := c.readInput(file)
		if err != nil {
			return nil, err
		}
		if len(text) == 0 { // it would stand for none
			return nil, fmt.Errorf("%s is empty: it must hold PEM", file)
		}
		tls[member] = string(text)
	}
	if len(tls) > 0 {
		set["tls"] = tls
	}
	return set, nil
}

// body returns the request: the file's members, replaced by those of flags. Members of params, tls
// and basicAuth are merged one by one.
func (in *webhookInput) body(c *cli, set map[string]any) (json.RawMessage, error) {
	if in.file == "" {
		return json.Marshal(set)
	}
	object, err := c.readObject(in.file)
	if err != nil {
		return nil, err
	}
	var written map[string]json.RawMessage
	if err := json.Unmarshal(object, &written); err != nil {
		return nil, fmt.Errorf("read the webhook: %w", err)
	}
	for name, value := range set {
		members, isObject := value.(map[string]any)
		if !isObject || !bytes.HasPrefix(written[name], []byte("{")) {
			continue
		}
		if set[name], err = override(written[name], members); err != nil {
			return nil, err
		}
	}
	return override(object, set)
}

// webhooksCreate posts a webhook; certificates and keys go in the body as PEM, read from their
// files.
func (c *cli) webhooksCreate() *cobra.Command {
	var in webhookInput
	cmd := &cobra.Command{
		Use: "create -f FILE | --name NAME --url URL", Short: "Create a webhook",
		Long: `Creates a webhook from a YAML or JSON file with the members of the API, from flags, or from
both: a flag wins over the file.

With --ca-file the receiver's certificate must come from the authorities in that file, and from no
other; --client-cert-file and --client-key-file are shown to a receiver that asks who calls.`,
		Example: `  waypost webhooks create --name crm --url https://crm.example.com/hook --basic-auth waypost:s3cret \
    --param greeting='Hello {{ lead.name }}' --param priority:=1

  waypost webhooks create --name erp --url https://erp.internal.example.com/hook --ca-file ca.pem \
    --client-cert-file waypost.pem --client-key-file waypost.key

  cat > webhook.yaml <<'END'
  name: crm
  url: https://crm.example.com/hook
  retry: {schedule: [5s, 1m, 1h], giveUpAfter: 24h}
  END
  waypost webhooks create -f webhook.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.file == "" && (in.name == "" || in.url == "") {
				return usagef("a webhook needs -f FILE, or --name and --url")
			}
			set, err := in.set(cmd, c)
			if err != nil {
				return err
			}
			body, err := in.body(c, set)
			if err != nil {
				return err
			}
			return c.send(cmd.Context(), http.MethodPost, webhooksPath, body)
		},
	}
	in.flags(cmd)
	return cmd
}

// webhooksUpdate patches the members that the file, flags and --clear name; --clear sends null.
func (c *cli) webhooksUpdate() *cobra.Command {
	var in webhookInput
	var cleared []string
	cmd := &cobra.Command{
		Use: "update ID [-f FILE] [--FLAG VALUE ...]", Short: "Change a webhook",
		Long: `Changes the members that flags, or a YAML or JSON file, name; a flag wins over the file. All others
stay as they are, secrets included; null in a file, or --clear, sets a member to its default. With
--if-match nothing happens if the webhook was changed meanwhile.`,
		Example: `  waypost webhooks update whk_… --client-cert-file waypost.pem --client-key-file waypost.key
  waypost webhooks update whk_… --clear tls.caCertificate --clear params.greeting
  waypost webhooks update whk_… --timeout-ms 5000 --if-match "$(waypost webhooks show whk_… --etag)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := in.set(cmd, c)
			if err != nil {
				return err
			}
			if err := clearMembers(set, cleared); err != nil {
				return err
			}
			if in.file == "" && len(set) == 0 {
				return usagef("update needs what is to change: flags such as --url URL, --clear MEMBER or -f FILE")
			}
			body, err := in.body(c, set)
			if err != nil {
				return err
			}
			a, err := c.change(cmd, http.MethodPatch, webhookPath(args[0]), body)
			if err != nil {
				return err
			}
			return c.printAnswer(a)
		},
	}
	in.flags(cmd)
	cmd.Flags().StringArrayVar(&cleared, "clear", nil, "a member to set to its default, such as rateLimit, tls or params.greeting; may stand several times")
	matchFlag(cmd, "webhook")
	return cmd
}

// clearMembers sets members to null: a member of another one by both names, such as
// tls.caCertificate.
func clearMembers(set map[string]any, names []string) error {
	for _, name := range names {
		target, member := set, name
		if outer, inner, nested := strings.Cut(name, "."); nested {
			if _, given := set[outer]; !given {
				set[outer] = map[string]any{}
			}
			target, _ = set[outer].(map[string]any)
			member = inner
		}
		if _, given := target[member]; given || target == nil {
			return usagef("--clear %s: it is set or cleared by another flag", name)
		}
		target[member] = nil
	}
	return nil
}

// override replaces members of an object. An empty set returns the object as it is.
func override(object json.RawMessage, set map[string]any) (json.RawMessage, error) {
	if len(set) == 0 {
		return object, nil
	}
	var written map[string]json.RawMessage
	if err := json.Unmarshal(object, &written); err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	merged := maps.Clone(set)
	for name, value := range written {
		if _, replaced := set[name]; !replaced {
			merged[name] = value
		}
	}
	return json.Marshal(merged)
}

func (c *cli) webhooksList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List webhooks, newest first",
		Example: `  waypost webhooks list -o json
  waypost webhooks list --name crm --enabled false`,
	}, webhooksPath, filters{
		{"name", "name", "only those whose name begins so, in upper or lower case"},
		{"enabled", "enabled", "only those that are enabled (true) or not (false)"},
	},
		col("ID", "id"), col("NAME", "name"), col("URL", "url"), col("ENABLED", "enabled"), col("CREATED", "createdAt"))
}

func (c *cli) webhooksShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show a webhook",
		long:  "Shows a webhook. With --etag it shows only the ETag of its current version, for --if-match of update.",
		example: `  waypost webhooks show whk_…
  waypost webhooks show whk_… --etag`,
		path: webhookPath,
		etag: true,
	})
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
			a, err := c.request(cmd.Context(), http.MethodGet, webhookPath(args[0])+"/health", nil)
			if err != nil {
				return err
			}
			return printAs(c, a, "webhook's health", c.printHealth)
		},
	}
}

// printHealth writes the state of a webhook as rows of names and values, and a table of its last
// errors below them.
func (c *cli) printHealth(h api.WebhookHealth) error {
	t := c.table()
	t.row("webhook", clean(h.WebhookID))
	enabled := "yes"
	if !h.Enabled {
		enabled = "no"
		if h.DisabledReason != "" {
			enabled = "no, disabled because of " + clean(string(h.DisabledReason))
		}
	}
	t.row("enabled", enabled)
	breaker := clean(h.Breaker.State)
	if since := h.Breaker.Since; !since.IsZero() {
		breaker += " since " + since.String()
	}
	if next := h.Breaker.NextProbeAt; !next.IsZero() {
		breaker += ", next probe " + next.String()
	}
	t.row("breaker", breaker)
	for _, r := range h.Waiting.Reasons {
		t.row("deferred", fmt.Sprintf("%s for %s, since %s", count(r.Count), clean(r.Reason), r.Since))
	}
	t.row("retrying", count(h.Waiting.Retrying))
	t.row("last hour", statsOf(h.LastHour))
	t.row("last 24 hours", statsOf(h.LastDay))
	if !h.LastSuccessAt.IsZero() {
		t.row("last success", h.LastSuccessAt.String())
	}
	if !h.SampledSince.IsZero() {
		t.row("counted since", h.SampledSince.String()+", of the newest messages only")
	}
	if err := t.flush(); err != nil || len(h.LastErrors) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(c.stdout); err != nil {
		return err
	}
	t = c.table("LAST ERRORS", "MESSAGE", "ATTEMPT", "CLASS", "STATUS", "MS")
	for _, e := range h.LastErrors {
		status := ""
		if e.HTTPStatus != 0 {
			status = fmt.Sprint(e.HTTPStatus)
		}
		t.row(e.At.String(), clean(e.MessageID), fmt.Sprint(e.Attempt), clean(string(e.ErrorClass)), status, fmt.Sprint(e.DurationMs))
	}
	return t.flush()
}

// count shows a number of deliveries, which a gateway counts up to a bound.
func count(n int) string {
	if n >= waypost.MaxWaiting {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

// statsOf are attempts for people.
func statsOf(s api.AttemptStats) string {
	if s.Attempts == 0 || s.SuccessRate == nil || s.LatencyMs == nil {
		return "no attempts"
	}
	text := fmt.Sprintf("%s, %.4g%% succeeded; p50 %d ms, p95 %d ms, p99 %d ms, max %d ms",
		quantity(s.Attempts, "attempt", "attempts"), 100**s.SuccessRate, s.LatencyMs.P50, s.LatencyMs.P95, s.LatencyMs.P99, s.LatencyMs.Max)
	for i, class := range slices.Sorted(maps.Keys(s.Errors)) {
		text += map[bool]string{true: "; ", false: ", "}[i == 0] + fmt.Sprintf("%d %s", s.Errors[class], clean(class))
	}
	return text
}

// webhooksHistory gets /history of one webhook or of all, and prints a bar for each interval with
// attempts.
func (c *cli) webhooksHistory() *cobra.Command {
	span := filters{
		{"from", "from", "since this time (RFC 3339), up to 90 days before --to; 7 days before it without --from"},
		{"to", "to", "until this time; now without it"},
		{"every", "every", "hour, which it is without it, or day (of UTC)"},
	}
	cmd := &cobra.Command{
		Use: "history [ID]", Short: "Show how a webhook's attempts ended, hour by hour or day by day",
		Long: `Shows for each hour or day how many attempts began in it, how they ended, and within how many
milliseconds half of them and 99 percent of them were over. Without ID it is the sum of all webhooks,
without these times. In the bars, ░ are those that failed. Hours and days without attempts are left out
of the table, and are in the answer with -o json.`,
		Example: `  waypost webhooks history
  waypost webhooks history whk_…
  waypost webhooks history whk_… --every day --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z
  waypost webhooks history whk_… -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := webhooksPath
			if len(args) > 0 {
				path = webhookPath(args[0])
			}
			a, err := c.request(cmd.Context(), http.MethodGet, path+"/history?"+span.query(cmd).Encode(), nil)
			if err != nil {
				return err
			}
			return printAs(c, a, "history", func(h api.WebhookHistory) error { return c.printHistory(h.Series) })
		},
	}
	span.flags(cmd)
	return cmd
}

func (c *cli) printHistory(series []api.WebhookInterval) error {
	most := 0
	for _, i := range series {
		most = max(most, i.Attempts)
	}
	t := c.table("FROM", "ATTEMPTS", "SUCCEEDED", "FAILED", "P50 MS", "P99 MS", "")
	for _, i := range series {
		if i.Attempts > 0 {
			t.row(i.From.String(), fmt.Sprint(i.Attempts), fmt.Sprint(i.Succeeded), fmt.Sprint(i.Failed),
				numberOrBlank(i.P50Ms), numberOrBlank(i.P99Ms), barOf(i, most))
		}
	}
	return t.flush()
}

// numberOrBlank is a number, "" without one.
func numberOrBlank(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// barOf draws attempts in proportion to most, the largest number of an interval; its end stands for
// those that failed.
func barOf(i api.WebhookInterval, most int) string {
	length := max(1, barWidth*i.Attempts/most)
	failed := (length*i.Failed + i.Attempts - 1) / i.Attempts // one that failed is seen
	return strings.Repeat("█", max(0, length-failed)) + strings.Repeat("░", min(length, failed))
}

func (c *cli) webhooksTest() *cobra.Command {
	return c.postCommand(&cobra.Command{
		Use: "test ID", Short: "Send one test message and show what came back",
		Long:    "Sends one test message to the webhook and shows what came back. It fails if the receiver\ndid not take the message.",
		Example: `  waypost webhooks test whk_…`,
	}, webhookPath, c.printTrial)
}

// printTrial prints what a test message came to. It fails if the receiver did not take it.
func (c *cli) printTrial(a answer) error {
	var outcome api.Trial
	if err := a.decode(&outcome, "JSON object"); err != nil {
		return err
	}
	if err := c.printAnswer(a); err != nil {
		return err
	}
	if !outcome.Succeed {
		return errors.New("the receiver did not take the message")
	}
	return nil
}
