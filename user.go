package waypost

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Role says what a person may do in the console (docs/contract.md, "The console").
type Role string

// The roles. Each may do what the one before may.
const (
	RoleViewer   Role = "viewer"   // looks
	RoleMarketer Role = "marketer" // also journeys, launches, leads, segments, redeliveries
	RoleAdmin    Role = "admin"    // all of it, users too
	// RoleNone is of a user to whom the issuer gives no role any more. Nobody else has it.
	RoleNone Role = "none"
)

// Roles lists the roles, the one that may do least first.
var Roles = []Role{RoleViewer, RoleMarketer, RoleAdmin}

// roleGrants are the grants that a role has beside those of the roles before it.
var roleGrants = map[Role][]Grant{
	RoleViewer:   {GrantJourneysRead, GrantDeliveriesRead, GrantWebhooksRead, GrantLeadsExport, GrantSubscriptionsRead, GrantSuppressionsRead, GrantSegmentsRead},
	RoleMarketer: {GrantJourneysWrite, GrantJourneysRun, GrantLeadsImport, GrantLeadsUpdate, GrantDeliveriesRedeliver, GrantSuppressionsWrite, GrantSegmentsWrite},
	RoleAdmin:    {"*"},
}

// Reaches tells whether r is least or a role after it.
func (r Role) Reaches(least Role) bool {
	rank := slices.Index(Roles, r)
	return rank >= 0 && rank >= slices.Index(Roles, least)
}

// Allows tells whether a person of this role may make calls that need a grant.
func (r Role) Allows(want Grant) bool {
	for _, role := range Roles {
		if r.Reaches(role) && slices.ContainsFunc(roleGrants[role], func(g Grant) bool { return g.allows(want) }) {
			return true
		}
	}
	return false
}

// User is a person who may sign in to the console.
type User struct {
	ID        string    `json:"id"`
	Org       string    `json:"org"`
	Email     string    `json:"email"` // folded (FoldEmail); what the person signs in with
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Disabled  bool      `json:"disabled"`
	CreatedAt time.Time `json:"createdAt"`
	// Issuer is the OpenID Connect issuer at which one account is the user's, "" before the first
	// sign-in there.
	Issuer string `json:"issuer"`

	// PasswordHash is argon2id's, "" while the person has chosen no password.
	PasswordHash string `json:"-"`
	// Sessions counts how often all sessions of the person were ended: a session of a
	// lower count is over.
	Sessions     int          `json:"-"`
	SecondFactor SecondFactor `json:"-"`
}

// Ways to sign in, as the audit log tells them.
const (
	SignInByPassword = "password"
	SignInByLink     = "link"
	SignInByIssuer   = "issuer"
)

// FoldEmail is an e-mail address as it is stored and compared: without blanks around it, its ASCII
// letters in lower case. Other letters stay, since Unicode maps letters of other alphabets to ASCII
// ones, such as U+212A to k: another person's verified address must not become this user's.
func FoldEmail(email string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.TrimSpace(email))
}

// ErrSessionOver says that a user was disabled, or that their sessions were ended, since they were seen.
var ErrSessionOver = errors.New("the session is over")

// IssuerSignIn is what an OpenID Connect issuer says of a person who signs in.
type IssuerSignIn struct {
	Issuer, Subject string
	Email           string // folded; "" unless the issuer has verified it
	Name            string
	ByClaims        bool // claims give roles
	Role            Role // that claims give; "" for none
	// SecondFactor is which one the person has shown here, "" for none.
	SecondFactor string
}

// NeedsSecondFactor says that an issuer's account is not bound to a user who has a second factor
// before that was shown here.
const NeedsSecondFactor = "needsSecondFactor"

// Reasons why somebody is not let in, as the audit log tells them.
const (
	FailedPassword = "password" // a wrong one
	FailedDisabled = "disabled" // the user is
	FailedLink     = "link"     // cannot be used
	FailedIssuer   = "issuer"   // what the issuer sends is not right
	FailedUnknown  = "unknown"  // whom the issuer knows is no user
	FailedSubject  = "subject"  // the user has another account of the issuer
	FailedRole     = "role"     // the issuer gives no role any more

	FailedSecondFactor = "secondFactor" // a wrong one
)

// Sessions that a user ends, as the audit log tells them.
const (
	SessionThis   = "this"   // signed out
	SessionOther  = "other"  // one on another device
	SessionOthers = "others" // all but this one
	SessionAll    = "all"    // by the issuer
)

// LinkExpiry is how long a sign-in link can be used, once.
const LinkExpiry = 24 * time.Hour

// Validate reports everything that is wrong with a new user.
func (u *User) Validate() error {
	var p Problems
	if !isName(u.Org, 64) {
		p.Add(DetailInvalidFormat, "org", "must be 1 to 64 characters")
	}
	local, domain, _ := strings.Cut(u.Email, "@")
	if local == "" || domain == "" || strings.ContainsAny(domain, "@ ") || !isName(u.Email, MaxActor) || u.Email != FoldEmail(u.Email) {
		p.Add(DetailInvalidFormat, "email", "must be an e-mail address of at most %d characters, in lower case", MaxActor)
	}
	if !isName(u.Name, 100) {
		p.Add(DetailInvalidFormat, "name", "must be 1 to 100 characters")
	}
	if !slices.Contains(Roles, u.Role) {
		p.Add(DetailOutOfRange, "role", "must be viewer, marketer or admin")
	}
	return p.Err("user")
}
