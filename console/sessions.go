package console

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mileusna/useragent"

	"waypost"
)

// sessionNote is what is noted of a session, for its person to see.
type sessionNote struct {
	Sessions    int // the user's at the sign-in: one of a lower count is over
	Began, Seen time.Time
	Address     string
	Agent       string // the User-Agent of the browser
	SID         string // of the issuer's session, "" without one
}

// maxAgent bounds what is kept of a User-Agent, in bytes; browsers send about 120.
const maxAgent = 300

// notePurpose binds the notes of a person's sessions to that person.
func notePurpose(user string) string { return "session/" + user }

// noteSession notes the session of this request as seen now. What is noted is sealed: Redis holds
// nothing about people that can be read.
func (v *visit) noteSession(u waypost.User) error {
	ctx, now := v.r.Context(), time.Now()
	note := sessionNote{
		Sessions: u.Sessions, Began: time.Unix(v.sessions.GetInt64(ctx, "began"), 0), Seen: now,
		Address: v.address(), Agent: strings.ToValidUTF8(v.r.UserAgent()[:min(len(v.r.UserAgent()), maxAgent)], ""),
		SID: v.sessions.GetString(ctx, "sid"),
	}
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	id, err := v.Sessions.Note(ctx, u.ID, v.sessions.Token(ctx), v.Keys.Seal(text, notePurpose(u.ID)), sessionTime)
	if err != nil {
		return away{err}
	}
	v.sessions.Put(ctx, "id", id)
	v.sessions.Put(ctx, "seen", now.Unix())
	return nil
}

// lastOf is how long a session lasts at most that began so.
func (v *visit) lastOf(by string) time.Duration {
	if by == waypost.SignInByIssuer {
		return issuerSession
	}
	return sessionTime
}

// prolong moves the end of the session, and notes that it was seen, once in a sessionStep.
func (v *visit) prolong() error {
	ctx, now := v.r.Context(), time.Now()
	if now.Sub(time.Unix(v.sessions.GetInt64(ctx, "seen"), 0)) <= sessionStep {
		return nil
	}
	end := now.Add(sessionIdle)
	if last := time.Unix(v.sessions.GetInt64(ctx, "began"), 0).Add(v.lastOf(v.sessions.GetString(ctx, "by"))); last.Before(end) {
		end = last
	}
	v.sessions.SetDeadline(ctx, end)
	return v.noteSession(v.user)
}

// sessionShown is a session on its person's page.
type sessionShown struct {
	ID string
	sessionNote
	Device string // in words
	Here   bool   // it is the one of this request
}

// ownSessions are the person's sessions that go on, the one of this request first, then those that
// were seen last.
func (v *visit) ownSessions() ([]sessionShown, error) {
	ctx := v.r.Context()
	notes, err := v.Sessions.Of(ctx, v.user.ID)
	if err != nil {
		return nil, away{err}
	}
	own := v.sessions.GetString(ctx, "id")
	var all []sessionShown
	for _, id := range slices.Sorted(maps.Keys(notes)) {
		shown := sessionShown{ID: id, Here: id == own}
		// A note that cannot be read, since its key is gone, is of a session all the same.
		if text, err := v.Keys.Open([]byte(notes[id]), notePurpose(v.user.ID)); err == nil {
			if err := json.Unmarshal(text, &shown.sessionNote); err != nil {
				return nil, err
			}
			if shown.Sessions != v.user.Sessions {
				continue
			}
		}
		shown.Device = v.device(shown.Agent)
		all = append(all, shown)
	}
	slices.SortStableFunc(all, func(a, b sessionShown) int {
		if a.Here != b.Here {
			if a.Here {
				return -1
			}
			return 1
		}
		return b.Seen.Compare(a.Seen)
	})
	return all, nil
}

// device names a browser and its system by a User-Agent.
func (v *visit) device(agent string) string {
	ua := useragent.Parse(agent)
	switch {
	case ua.Name != "" && ua.OS != "":
		return v.t("account.browserOn", "browser", ua.Name, "system", ua.OS)
	case ua.Name != "":
		return ua.Name
	}
	return v.t("account.unknownDevice")
}

func (v *visit) endSession() error {
	ctx := v.r.Context()
	id := v.r.PathValue("id")
	if id == v.sessions.GetString(ctx, "id") {
		return v.signOut()
	}
	ended, err := v.Sessions.End(ctx, v.user.ID, id)
	if err != nil {
		return away{err}
	}
	if !ended {
		return waypost.Errorf(waypost.CodeNotFound, "id", "there is no such session")
	}
	if err := v.Users.RecordSignOut(ctx, v.by(), v.user.ID, waypost.SessionOther); err != nil {
		return err
	}
	v.flash("ok", v.t("account.sessionEnded"))
	return v.redirect(accountPath, nil)
}

func (v *visit) endOtherSessions() error {
	ctx := v.r.Context()
	own := v.sessions.GetString(ctx, "id")
	if _, err := v.endNoted(ctx, v.user.ID, func(id, _ string) bool { return id == own }); err != nil {
		return err
	}
	if err := v.Users.RecordSignOut(ctx, v.by(), v.user.ID, waypost.SessionOthers); err != nil {
		return err
	}
	v.flash("ok", v.t("account.othersEnded"))
	return v.redirect(accountPath, nil)
}

// endNoted ends the sessions that are noted of an owner, but those that keep tells by their id and their
// sealed note. It returns how many it has ended.
func (v *visit) endNoted(ctx context.Context, owner string, keep func(id, sealed string) bool) (ended int, err error) {
	notes, err := v.Sessions.Of(ctx, owner)
	if err != nil {
		return 0, away{err}
	}
	for id, sealed := range notes {
		if keep(id, sealed) {
			continue
		}
		was, err := v.Sessions.End(ctx, owner, id)
		if err != nil {
			return ended, away{err}
		}
		if was {
			ended++
		}
	}
	return ended, nil
}
