package segment

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

var (
	at    = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	one   = waypost.NewID(waypost.PrefixSegment, at)
	two   = waypost.NewID(waypost.PrefixSegment, at)
	three = waypost.NewID(waypost.PrefixSegment, at)
)

func TestCompile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ when, where string }{ // = says that SQL answers it, ⊂ that the others are evaluated
		{`lead.name == "Ada"`, `={name = Ada}`},
		{`"Ada" <= lead.name`, `={name >= Ada}`},
		{`lead.gender == 1 && lead.name > "B"`, `=[{gender = 1} {name > B}]`},
		{`lead.gender == "1"`, `=[]or`},
		{`lead.gender < 1.5`, `=[{gender <= 1} {gender <= 9.007199254740992e+15} {gender >= -9.007199254740992e+15}]`},
		{`!(lead.name == "Ada") && lead.email.endsWith("@x.cn")`, `=[{name <> Ada} {emailFolded ends with @x.cn}]`},
		{`lead.email in ["a", "B"]`, `=[{emailFolded = a} {emailFolded = b}]or`},
		{`!(lead.email in ["A"])`, `=[{emailFolded unset <nil>} {emailFolded <> a}]or`},
		{`lead.email == "Ada@Example.com" && lead.email < "B"`, `=[{emailFolded = ada@example.com} {email < B}]`},
		{`lead.mobilePhone == null || has(lead.email)`, `=[{mobilePhone unset <nil>} {email set <nil>}]or`},
		{`lead.customFields.plan == null || lead.customFields.plan != null`, `=[{plan unset <nil>} {plan set <nil>}]or`},
		{`lead.birthday < "1990-12-31"`, `=[{birthday < 1990-12-31} {birthday starts not with --}]`},
		{`lead.customFields.plan == "gold" || lead.customFields.vip`, `=[{plan = gold} {vip = true}]or`},
		{`lead.customFields.rate < 1e-7 || lead.customFields.rate > -2.5e6 || lead.customFields.rate == 1e6`, `=[{rate < 1e-07} {rate > -2.5e+06} {rate = 1e+06}]or`},
		{`has(lead.customFields.plan)`, `={plan set <nil>}`},
		{`has(lead.customFields.plan) == false`, `⊂[]`},
		{`true == has(lead.email) || has(lead.customFields.plan) in [true]`, `⊂[]`},
		{`"first name" in lead.customFields`, `={first name set <nil>}`},
		{`!("first name" in lead.customFields) || lead.customFields["first name"] != "Ada"`, `=[{first name unset <nil>} {first name <> Ada}]or`},
		{`lead.email == null`, `={email unset <nil>}`},
		{`lead.createdAt > now - duration("24h")`, `={createdAt > {0001-01-01 00:00:00 +0000 UTC true -24h0m0s}}`},
		{`lead.createdAt > timestamp("2026-01-01T00:00:00Z")`, `={createdAt > {2026-01-01 00:00:00 +0000 UTC false 0s}}`},
		{`lead.createdAt > timestamp("2026-01-01")`, `⊂[]`}, // in the lead's zone
		{`events("buy", duration("720h")).count() > 2`, `={buy 720h0m0s 3}`},
		{`events("buy").size() == 2`, `=[{buy 0s 2} {{buy 0s 3}}]`},
		{`events("buy").count() > 1000`, `=[]or`},
		{`events("buy").last().amount > 100`, `⊂{buy 0s 1}`},
		{`events("buy").last().amount > 100 || lead.gender == 1`, `⊂[{buy 0s 1} {gender = 1}]or`},
		{`events("buy").exists(e, e.amount > 100)`, `⊂{buy 0s 1}`},
		{`!events("buy").exists(e, e.amount > 100)`, `⊂[]`},
		{`events("buy").filter(e, e.amount > 100).count() > 2`, `⊂{buy 0s 3}`},
		{`events("buy").filter(e, e.amount > 100).count() == 2`, `⊂{buy 0s 2}`},
		{`events("buy").filter(e, e.amount > 100).count() < 2`, `⊂[]`},
		{`lead.email == null ? lead.name == "a" : lead.name == "b"`, `=[[{email unset <nil>} {name = a}] [{email set <nil>} {name = b}]]or`},
		{`lead.name.size() > 3 && lead.gender == 1`, `⊂{gender = 1}`},
		{fmt.Sprintf("!inSegment(%q)", two), `={{gender = 1}}`},
		{fmt.Sprintf("!inSegment(%q)", three), `⊂[]`},
		{fmt.Sprintf("inSegment(%q)", three), `⊂{gender = 1}`},
	} {
		s, err := Compile(one, map[string]string{one: test.when, two: `lead.gender == 1`, three: `lead.gender == 1 && lead.name.size() > 3`})
		if err != nil {
			t.Errorf("%s: %v", test.when, err)
			continue
		}
		got := "⊂"
		if s.Exact() {
			got = "="
		}
		got += fmt.Sprint(s.Where())
		if _, isOr := s.Where().(Or); isOr {
			got += "or"
		}
		if got != test.where {
			t.Errorf("%s:\n got %s\nwant %s", test.when, got, test.where)
		}
	}
}

// What SQL has answered is not asked again.
func TestNeeds(t *testing.T) {
	t.Parallel()
	s, err := Compile(one, map[string]string{one: `events("buy", duration("1h")).count() > 1 && events("see", duration("2h")).last().n > events("see", duration("3h")).last().n && events("see").count() > 1`})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Needs(false)); got != "{[{see 2h0m0s 1} {see 3h0m0s 1}] [] [] []}" {
		t.Errorf("what is left needs %s", got)
	}
	if got := fmt.Sprint(s.Fields()); got != "[]" {
		t.Errorf("what is left reads %s", got)
	}
	s, err = Compile(one, map[string]string{one: `lead.gender == 1 && (date(lead.birthday) < today || lead.name.size() > 3 || lead["region"] + 1 == 2)`})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Fields()); got != "[birthday customFields name region]" {
		t.Errorf("what is left reads %s", got)
	}
	s, err = Compile(one, map[string]string{one: `lead.size() > 3`})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Fields()); n != 24 {
		t.Errorf("it reads %d fields", n)
	}
}

func TestAllNeeds(t *testing.T) {
	t.Parallel()
	s, err := Compile(one, map[string]string{one: `events("buy", duration("1h")).count() > 1 && events("see", duration("2h")).last().n > events("see", duration("3h")).last().n && events("see").count() > 1`})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Needs(true)); got != "{[{buy 1h0m0s 0} {see 0s 0} {see 2h0m0s 1} {see 3h0m0s 1}] [] [] []}" {
		t.Errorf("all of it needs %s", got)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]string{
		`lead.nme == "x"`:               `lead has no member "nme"`,
		`foo(lead)`:                     `undeclared reference to 'foo'`,
		`journey.id == "x"`:             `undeclared reference to 'journey'`,
		`events()`:                      `events takes the name`,
		`events(lead.name).count() > 1`: `events takes the name`,
		`events("x", duration(lead.name)).count() > 1`: `the window of events must be written like`,
		`events("x", duration("-1h")).count() > 1`:     `the window of events must be written like`,
		`entered("x")`:               `is no such id`,
		`inSegment("` + one + `")`:   `in a circle`,
		`inSegment("` + two + `")`:   `in a circle`,
		`inSegment("` + three + `")`: `there is no segment`,
		`events("x").exists(a, events("x").exists(b, a.n == b.n))`: `steps for a lead`,
		`1 + 1`: `must be true or false`,
	} {
		_, err := Compile(one, map[string]string{one: when, two: `inSegment("` + one + `")`})
		if waypost.CodeOf(err) != waypost.CodeBadRequest || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", when, err)
		}
	}
}
