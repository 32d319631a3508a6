package store

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// RecordSignIn writes the entry of a sign-in of the author, a user, before it holds: by says how, and
// second by which second factor, "" by none.
func (s *audit) RecordSignIn(ctx context.Context, author waypost.Author, by, second string) (err error) {
	defer wrap(&err, "record a sign-in")
	return s.recordSession(ctx, author, "session.create", author.Actor, signedInBy(by, second))
}

// signedInBy tells in the entry of a sign-in how it was done, and by which second factor, "" by none.
func signedInBy(by, second string) fields {
	how := fields{"by": by}
	if second != "" {
		how["secondFactor"] = second
	}
	return how
}

// RecordSignOut writes the entry of sessions of a user that have ended: which says of which.
func (s *audit) RecordSignOut(ctx context.Context, author waypost.Author, userID, which string) (err error) {
	defer wrap(&err, "record a sign-out")
	return s.recordSession(ctx, author, "session.end", userID, fields{"session": which})
}

func (s *audit) recordSession(ctx context.Context, author waypost.Author, action, userID string, after any) error {
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		author = inOrg(author, author.Org)
		return s.add(ctx, tx, &author, action, userID, nil, after)
	})
}

// Failed sign-ins of one user within failTime are one entry, those that a second factor was asked of are
// another one, and those of addresses that no user has one for all: strangers cannot fill the log.
const (
	failTime         = time.Hour
	maxFailAddresses = 20
)

// signInTries is what the entry tells of them.
type signInTries struct {
	Addresses []string       `json:"addresses"` // of clients, the first maxFailAddresses
	Last      string         `json:"last"`      // when the last one was; the entry is of the first one's time
	Reasons   map[string]int `json:"reasons"`   // tries by what was wrong, or by what was right
	Tries     int            `json:"tries"`
}

func (f *signInTries) add(reason, address string, at time.Time) {
	f.Tries++
	if f.Reasons == nil {
		f.Reasons = map[string]int{}
	}
	f.Reasons[reason]++
	if address != "" && len(f.Addresses) < maxFailAddresses && !slices.Contains(f.Addresses, address) {
		f.Addresses = append(f.Addresses, address)
	}
	f.Last = at.UTC().Format(auditTime)
}

// RecordFailedSignIn counts a sign-in that failed in the entry of its user and hour. userID is "" if no
// user has the address. The entry has no actor: who tried is not known.
func (s *audit) RecordFailedSignIn(ctx context.Context, author waypost.Author, userID, reason string) (err error) {
	defer wrap(&err, "record a failed sign-in")
	return s.countSignIn(ctx, author, "session.fail", userID, reason)
}

// RecordPendingSignIn counts, in an entry of its own, a sign-in of which the second factor is asked: by a
// password, a link or an issuer. If it is shown, RecordSignIn follows.
func (s *audit) RecordPendingSignIn(ctx context.Context, author waypost.Author, userID, by string) (err error) {
	defer wrap(&err, "record a pending sign-in")
	return s.countSignIn(ctx, author, "session.pending", userID, by)
}

// countSignIn counts a sign-in in the entry of its action, user and hour; the first one makes the entry.
func (s *audit) countSignIn(ctx context.Context, author waypost.Author, action, userID, reason string) error {
	author.Actor = ""
	author = inOrg(author, author.Org)
	target := userID
	if target == "" {
		target = waypost.UnknownUser
	}
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		now := s.time()
		var rows []auditRow
		q := tx.NewSelect().Model(&rows).Where("org = ? AND stage = ? AND target = ?", author.Org, author.Stage, cleanText(target)).
			Where("id >= ? AND action = ?", firstAudit(now.Add(-failTime)), action).Order("id").Limit(1)
		if err := s.lock(q, "au").Scan(ctx); err != nil {
			return err
		}
		var all signInTries
		if len(rows) == 0 {
			all.add(reason, author.Address, now)
			return s.add(ctx, tx, &author, action, target, nil, all)
		}
		if err := json.Unmarshal([]byte(*rows[0].Became), &all); err != nil {
			return err
		}
		all.add(reason, author.Address, now)
		became, err := toJSON(all)
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model((*auditRow)(nil)).Set("became = ?", became).Where("id = ?", rows[0].ID).Exec(ctx)
		return err
	})
}

// userIDs finds ids of users.
var userIDs = regexp.MustCompile(waypost.PrefixUser + `[0-9a-z]{26}`)

// aboutUsers tells whether the sides of an entry may name users.
func (r auditRow) aboutUsers() bool {
	return strings.HasPrefix(r.Action, "user.") || strings.HasPrefix(r.Action, "session.")
}

// nameUsers puts the e-mail addresses of users in the place of their ids, as actors and as those who
// made a sign-in link. A user who was deleted stays an id.
func (s *auditLog) nameUsers(ctx context.Context, org string, rows []auditRow) error {
	var ids []string
	for _, r := range rows {
		ids = append(ids, userIDs.FindString(r.Actor))
		if r.aboutUsers() && r.Became != nil {
			ids = append(ids, userIDs.FindAllString(*r.Became, -1)...)
		}
	}
	ids = slices.DeleteFunc(distinct(ids), func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return nil
	}
	var users []userRow
	if err := s.r.NewSelect().Model(&users).Column("id", "email").Where("org = ? AND id IN (?)", org, bun.List(ids)).Scan(ctx); err != nil {
		return err
	}
	address := map[string]string{}
	for _, u := range users {
		address[u.ID] = u.Email
	}
	for i := range rows {
		r := &rows[i]
		if email := address[r.Actor]; email != "" {
			r.Actor = email
		}
		if r.aboutUsers() && r.Became != nil {
			named := userIDs.ReplaceAllStringFunc(*r.Became, func(id string) string {
				if address[id] == "" {
					return id
				}
				quoted, _ := json.Marshal(address[id]) // a string can be encoded
				return string(quoted[1 : len(quoted)-1])
			})
			r.Became = &named
		}
	}
	return nil
}
