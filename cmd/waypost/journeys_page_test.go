package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"waypost"
)

// pageRunner carries out the lines of a page's sh blocks against a gateway.
type pageRunner struct {
	t      *testing.T
	client []string
	ids    map[string]string        // what stands for ids that the page leaves open
	anew   map[string]func() string // the same, asked for at each line
}

// run carries out all lines, but without --watch, which would wait for what nobody
// carries out. Each must succeed; their answers are returned, by the lines.
func (p pageRunner) run(text string) map[string]members {
	p.t.Helper()
	answers := map[string]members{}
	for line := range strings.Lines(strings.Join(blocksOf(p.t, text, "sh"), "")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		answers[line] = p.line(strings.ReplaceAll(strings.Replace(line, " --watch", "", 1), " examples/", " ../../examples/"))
	}
	return answers
}

func (p pageRunner) line(line string) members {
	p.t.Helper()
	written := line
	for open, another := range p.anew {
		if strings.Contains(line, open) {
			line = strings.ReplaceAll(line, open, another())
		}
	}
	for open, id := range p.ids {
		line = strings.ReplaceAll(line, open, id)
	}
	input, command, piped := strings.Cut(line, " | waypost ")
	var out []byte
	var err error
	ours := piped
	if !piped {
		command, ours = strings.CutPrefix(line, "waypost ")
	}
	if ours {
		var stdin []byte
		if piped {
			if stdin, err = exec.CommandContext(p.t.Context(), "sh", "-euc", input).Output(); err != nil {
				p.t.Fatalf("%s: %v", input, err)
			}
		}
		words, err := shellWords(command)
		if err != nil {
			p.t.Fatal(err)
		}
		r := runCLI(p.t, p.client, string(stdin), append([]string{"-o", "json"}, words...)...)
		if r.code != 0 {
			p.t.Fatalf("%s: exit code %d, %s", written, r.code, r.stderr)
		}
		out = []byte(r.stdout)
	} else {
		cmd := exec.CommandContext(p.t.Context(), "sh", "-euc", ". "+clientsDir+"waypost.sh\n"+line)
		cmd.Env = append(slices.Clone(p.client), "PATH="+os.Getenv("PATH"))
		if out, err = cmd.CombinedOutput(); err != nil {
			p.t.Fatalf("%s: %v, answer %s", written, err, out)
		}
	}
	var m members
	if err := json.Unmarshal(out, &m); err != nil || m.text("code") != "" {
		p.t.Fatalf("%s: %v, answer %s", written, err, out)
	}
	for _, name := range []string{"id", "journeyId"} {
		if kind, _, ok := strings.Cut(m.text(name), "_"); ok {
			p.ids[kind+"_…"] = m.text(name)
		}
	}
	if id := m.text("leadsId"); id != "" {
		p.ids["1001"] = id
	}
	return m
}

// shows compares the names of an answer's members with those of a block that a page
// shows.
func (p pageRunner) shows(block string, got members) {
	p.t.Helper()
	var shown members
	if err := json.Unmarshal([]byte(block), &shown); err != nil {
		p.t.Fatalf("%v in %s", err, block)
	}
	if fmt.Sprint(shown.names()) != fmt.Sprint(got.names()) {
		p.t.Errorf("the page shows %v, the answer has %v", shown.names(), got.names())
	}
	for _, m := range shown {
		var a, b []members
		if json.Unmarshal(m.value, &a) == nil && json.Unmarshal(got.raw(m.name), &b) == nil && len(a) > 0 && len(b) > 0 && fmt.Sprint(a[0].names()) != fmt.Sprint(b[0].names()) {
			p.t.Errorf("the page shows %v in %s, the answer has %v", a[0].names(), m.name, b[0].names())
		}
	}
}

// needTools skips a test where a program is missing.
func needTools(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
}

// The examples of docs/journeys.md work as they stand there, with the page's first
// journey, and answer what it shows.
func TestJourneysPage(t *testing.T) {
	t.Parallel()
	needTools(t, "sh", "curl", "openssl")
	p := pageRunner{t: t, client: newClientOf(t), ids: map[string]string{}}
	text := pageOf(t, "docs", "journeys.md")
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // takes every message
	t.Cleanup(receiver.Close)
	webhook := memberOf(t, p.client, "id", "", "webhooks", "create", "--name", "w", "--url", receiver.URL)
	p.ids["1001"] = memberOf(t, p.client, "leadsId", "name: Ada\nleadsGroup: 3\n", "leads", "create", "-f", "-")
	p.ids["jrn_…"] = memberOf(t, p.client, "journeyId", strings.NewReplacer("whk_1", webhook, "whk_2", webhook).Replace(blocksOf(t, text, "yaml")[0]), "journeys", "apply", "-f", "-", "--publish")
	// The page moves enrollments to a second version.
	next := strings.NewReplacer("whk_1", webhook, "whk_2", webhook, "72h", "24h").Replace(blocksOf(t, text, "yaml")[0])
	if v := memberOf(t, p.client, "version", next, "journeys", "apply", "-f", "-", "--publish"); v != "2" {
		t.Fatalf("the second version is %s", v)
	}
	answers := p.run(text)
	blocks := blocksOf(t, text, "json")
	if len(blocks) != 7 {
		t.Fatalf("%d answers are shown", len(blocks))
	}
	var dryRun, forecast, tested, migrated, statistics, archived, copied members
	for line, answer := range answers {
		switch {
		case strings.Contains(line, "dryrun") && strings.Contains(line, "waypost_call") && strings.Contains(line, "leadsId"):
			dryRun = answer
		case strings.Contains(line, "forecast") && strings.Contains(line, "waypost_call"):
			forecast = answer
		case strings.Contains(line, "waypost_call") && strings.Contains(line, "/test "):
			tested = answer
		case strings.Contains(line, "waypost_call") && strings.Contains(line, "/migrate"):
			migrated = answer
		case strings.HasSuffix(line, "/statistics"):
			statistics = answer
		case strings.Contains(line, "waypost_call") && strings.Contains(line, "/archive"):
			archived = answer
		case strings.Contains(line, "copy") && strings.Contains(line, "--stage"):
			copied = answer
		}
	}
	var part members // of the statistics of a journey with a goal
	if err := json.Unmarshal([]byte(blocks[0]), &part); err != nil {
		t.Fatal(err)
	}
	for _, name := range part.names() {
		if !slices.Contains(statistics.names(), name) {
			t.Errorf("the page shows %s, the answer has %v", name, statistics.names())
		}
	}
	p.shows(blocks[1], dryRun)
	p.shows(blocks[2], forecast)
	p.shows(blocks[3], tested)
	p.shows(blocks[4], migrated)
	p.shows(blocks[5], statistics)
	p.shows(blocks[6], copied)
	if forecast.text("total") != "1" || archived.text("status") != "archived" {
		t.Errorf("forecast for %s leads, the journey is %s", forecast.text("total"), archived.text("status"))
	}
}

// The examples of docs/operations.md, alike.
func TestOperationsPage(t *testing.T) {
	t.Parallel()
	needTools(t, "sh", "curl", "openssl")
	environ := deployment(t)
	p := pageRunner{t: t, client: clientOf(t, environ), ids: map[string]string{}}
	db := openStore(t, environ)
	p.ids["whk_…"] = memberOf(t, p.client, "id", "", "webhooks", "create", "--name", "w", "--url", "http://127.0.0.1:1/hook")
	p.ids["jrn_…"] = memberOf(t, p.client, "journeyId", strings.ReplaceAll(definition, "whk_1", p.ids["whk_…"]), "journeys", "apply", "-f", "-", "--publish")
	var lead int64
	if _, err := fmt.Sscan(memberOf(t, p.client, "leadsId", "name: Ada\n", "leads", "create", "-f", "-"), &lead); err != nil {
		t.Fatal(err)
	}
	decided := func(status waypost.DeliveryStatus) string {
		return decidedDeliveries(t, db, status, p.ids["jrn_…"], p.ids["whk_…"], lead)[0]
	}
	p.anew = map[string]func() string{"msg_…": func() string { return decided(waypost.DeliveryFailed) }}
	// What has nothing to send has ended before it can be canceled.
	decided(waypost.DeliveryFailed)
	decided(waypost.DeliveryCanceled)
	text := pageOf(t, "docs", "operations.md")
	answers := p.run(text)
	blocks := blocksOf(t, text, "json")
	p.shows(blocks[0], answers["waypost_call GET '/v1/webhooks/whk_…/history?every=hour'"])
	p.shows(blocks[1], answers["waypost_call GET '/v1/deliveries/summary?groupBy=errorClass,httpStatus,webhookId'"])
	p.shows(blocks[2], answers["waypost_call GET /v1/redeliveries/rdl_…"])
}

// What examples/README.md says to type works, too.
func TestExamplesPage(t *testing.T) {
	t.Parallel()
	needTools(t, "sh", "curl", "openssl")
	p := pageRunner{t: t, client: newClientOf(t), ids: map[string]string{}}
	answers := p.run(pageOf(t, "examples", "README.md"))
	for line, answer := range answers {
		if strings.Contains(line, "--event") && answer.text("status") != "exited" {
			t.Errorf("%s: the lead is %s in the end", line, answer.text("status"))
		}
	}
}

// Every file of examples/ says to type what is understood.
func TestExampleComments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"welcome", "abandoned-cart", "cart-abandoned", "birthday", "win-back", "first-order", "trial"} {
		text := strings.ReplaceAll(pageOf(t, "examples", name+".yaml"), "\\\n#", "")
		found := regexp.MustCompile(`(?m)^# +waypost (.*?)(  +#.*)?$`).FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s shows no command", name)
		}
		for _, line := range found {
			words, err := shellWords(line[1])
			if err != nil {
				t.Fatal(err)
			}
			cmd, rest, err := (&cli{}).root().Find(words)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil || !cmd.Runnable() || cmd.HasSubCommands() {
				t.Errorf("%s: %s: %v", name, line[1], err)
			}
		}
	}
}
