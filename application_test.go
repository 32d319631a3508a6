package waypost_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"waypost"
)

func TestParseGrant(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{"leads.import", "*", "leads.*", "webhooks.*", "leads.i*"} {
		if g, err := waypost.ParseGrant(ok); err != nil || string(g) != ok {
			t.Errorf("%q: %q, %v", ok, g, err)
		}
	}
	for _, bad := range []string{"", "leads", "leads.", "Leads.import", "leads.import*x", "*.import", "nothing.*", "leads.import "} {
		if g, err := waypost.ParseGrant(bad); waypost.CodeOf(err) != waypost.CodeBadRequest {
			t.Errorf("%q is accepted as %q, %v", bad, g, err)
		}
	}
}

func TestAllows(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		grants []waypost.Grant
		want   waypost.Grant
		ok     bool
	}{
		{nil, waypost.GrantLeadsImport, false},
		{[]waypost.Grant{"leads.import"}, waypost.GrantLeadsImport, true},
		{[]waypost.Grant{"leads.import"}, waypost.GrantLeadsExport, false},
		{[]waypost.Grant{"webhooks.read", "leads.*"}, waypost.GrantLeadsExport, true},
		{[]waypost.Grant{"leads.*"}, waypost.GrantWebhooksRead, false},
		{[]waypost.Grant{"*"}, waypost.GrantTokensIssue, true},
		{[]waypost.Grant{"leads"}, waypost.GrantLeadsImport, false},
	} {
		app := waypost.Application{Grants: tc.grants}
		if got := app.Allows(tc.want); got != tc.ok {
			t.Errorf("%v allow %s: %t", tc.grants, tc.want, got)
		}
	}
	all := waypost.Application{Grants: []waypost.Grant{"*"}}
	for _, g := range waypost.AllGrants {
		if !all.Allows(g) {
			t.Errorf("* does not allow %s", g)
		}
	}
}

// detailsOf lists "Code target" of a BadRequest's details.
func detailsOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *waypost.Error
	if !errors.As(err, &e) || e.Code != waypost.CodeBadRequest {
		t.Fatalf("%v is no BadRequest", err)
	}
	var out []string
	for _, d := range e.Details {
		out = append(out, fmt.Sprintf("%s %s", d.Code, d.Target))
	}
	return strings.Join(out, "; ")
}

func TestApplicationValidate(t *testing.T) {
	t.Parallel()
	good := func() waypost.Application {
		return waypost.Application{Org: "acme", Name: "CRM", Grants: []waypost.Grant{"leads.*"}, RatePerSecond: 100, RateBurst: 200}
	}
	for _, tc := range []struct {
		change func(*waypost.Application)
		want   string
	}{
		{func(*waypost.Application) {}, ""},
		{func(a *waypost.Application) { a.Name = strings.Repeat("名", 128) }, ""},
		{func(a *waypost.Application) { a.Name = strings.Repeat("名", 129) }, "InvalidFormat name"},
		{func(a *waypost.Application) { a.Org = "ac me" }, "InvalidFormat org"},
		{func(a *waypost.Application) { a.Org, a.Name = "", " " }, "InvalidFormat org; InvalidFormat name"},
		{func(a *waypost.Application) { a.Name = "a\x00b" }, "InvalidFormat name"},
		{func(a *waypost.Application) { a.Name = "a\xffb" }, "InvalidFormat name"},
		{func(a *waypost.Application) { a.Grants = nil }, "NullValue grants"},
		{func(a *waypost.Application) { a.Grants = []waypost.Grant{"leads.import", "nope"} }, "InvalidFormat grants[1]"},
		{func(a *waypost.Application) { a.RatePerSecond, a.RateBurst = 0, -1 }, "OutOfRange ratePerSecond; OutOfRange rateBurst"},
		{func(a *waypost.Application) { a.RatePerSecond, a.RateBurst = 100_001, 1_000_001 }, "OutOfRange ratePerSecond; OutOfRange rateBurst"},
	} {
		a := good()
		tc.change(&a)
		if got := detailsOf(t, a.Validate()); got != tc.want {
			t.Errorf("%+v: %q, want %q", a, got, tc.want)
		}
	}
}
