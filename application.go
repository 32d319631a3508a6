package waypost

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Grant permits an application one kind of call (docs/contract.md, "Grants").
type Grant string

// The grants.
const (
	GrantLeadsImport         Grant = "leads.import"
	GrantLeadsUpdate         Grant = "leads.update"
	GrantLeadsExport         Grant = "leads.export"
	GrantWebhooksRead        Grant = "webhooks.read"
	GrantWebhooksWrite       Grant = "webhooks.write"
	GrantSubscriptionsRead   Grant = "subscriptions.read"
	GrantSubscriptionsWrite  Grant = "subscriptions.write"
	GrantSuppressionsRead    Grant = "suppressions.read"
	GrantSuppressionsWrite   Grant = "suppressions.write"
	GrantJourneysRead        Grant = "journeys.read"
	GrantJourneysWrite       Grant = "journeys.write"
	GrantJourneysRun         Grant = "journeys.run"
	GrantDeliveriesRead      Grant = "deliveries.read"
	GrantDeliveriesRedeliver Grant = "deliveries.redeliver"
	GrantArticlesWrite       Grant = "articles.write"
	GrantTokensIssue         Grant = "tokens.issue"
	GrantAuditRead           Grant = "audit.read"
)

// AllGrants lists every grant.
var AllGrants = []Grant{
	GrantLeadsImport, GrantLeadsUpdate, GrantLeadsExport, GrantWebhooksRead, GrantWebhooksWrite,
	GrantSubscriptionsRead, GrantSubscriptionsWrite, GrantSuppressionsRead, GrantSuppressionsWrite, GrantJourneysRead, GrantJourneysWrite, GrantJourneysRun, GrantDeliveriesRead,
	GrantDeliveriesRedeliver, GrantArticlesWrite, GrantTokensIssue, GrantAuditRead,
}

// ParseGrant reads a grant or a pattern with a trailing '*' that matches at
// least one grant, such as "leads.*" or "*".
func ParseGrant(s string) (Grant, error) {
	if slices.ContainsFunc(AllGrants, Grant(s).allows) {
		return Grant(s), nil
	}
	names := make([]string, len(AllGrants))
	for i, g := range AllGrants {
		names[i] = string(g)
	}
	return "", Errorf(CodeBadRequest, "grants", "there is no grant %q; the grants are %s, and a trailing * matches the rest", Clip(s, 64), strings.Join(names, ", "))
}

func (g Grant) allows(want Grant) bool {
	if prefix, ok := strings.CutSuffix(string(g), "*"); ok {
		return strings.HasPrefix(string(want), prefix)
	}
	return g == want
}

// Application is a client of the gateway: it belongs to an organisation and may
// do what its grants say. It belongs to no stage.
type Application struct {
	ID       string    `json:"id"`
	Org      string    `json:"org"`
	Name     string    `json:"name"`
	Grants   []Grant   `json:"grants"`
	Disabled bool      `json:"disabled"`
	Keys     []KeyInfo `json:"keys"`
	// RatePerSecond and RateBurst are the request limit; 100/s and 200 by default.
	RatePerSecond  int       `json:"ratePerSecond"`
	RateBurst      int       `json:"rateBurst"`
	RequireIfMatch bool      `json:"requireIfMatch"`
	CreatedAt      time.Time `json:"createdAt"`
}

// KeyInfo describes a key without its secret, which is shown once.
type KeyInfo struct {
	AccessKey string    `json:"accessKey"`
	CreatedAt time.Time `json:"createdAt"`
}

// MaxActiveKeys is the number of keys an application can have at a time, so
// that a client can move from one to the next.
const MaxActiveKeys = 2

// Allows tells whether one of the application's grants covers want.
func (a *Application) Allows(want Grant) bool {
	return slices.ContainsFunc(a.Grants, func(g Grant) bool { return g.allows(want) })
}

// Credential is an access key with its secret in the clear. It never leaves the
// process except where a secret is shown for its first and only time.
type Credential struct {
	Application Application
	AccessKey   string
	SecretKey   string
}

// Validate reports everything that is wrong with a new application.
func (a *Application) Validate() error {
	var p Problems
	if !isName(a.Org, 64) || strings.ContainsAny(a.Org, " \t") {
		p.Add(DetailInvalidFormat, "org", "must be 1 to 64 characters without blanks")
	}
	if !isName(a.Name, 128) {
		p.Add(DetailInvalidFormat, "name", "must be 1 to 128 characters")
	}
	if len(a.Grants) == 0 {
		p.Add(DetailNullValue, "grants", "name at least one grant, such as leads.export or *")
	}
	for i, g := range a.Grants {
		if _, err := ParseGrant(string(g)); err != nil {
			p.Add(DetailInvalidFormat, fmt.Sprintf("grants[%d]", i), "%s", err)
		}
	}
	if a.RatePerSecond < 1 || a.RatePerSecond > 100_000 {
		p.Add(DetailOutOfRange, "ratePerSecond", "must be 1 to 100000")
	}
	if a.RateBurst < 1 || a.RateBurst > 1_000_000 {
		p.Add(DetailOutOfRange, "rateBurst", "must be 1 to 1000000")
	}
	return p.Err("application")
}

// isName tells whether s is a printable name of 1 to limit characters.
func isName(s string, limit int) bool {
	return strings.TrimSpace(s) != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit && !strings.ContainsFunc(s, unicode.IsControl)
}
