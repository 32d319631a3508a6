package console

import (
	"net/url"
	"slices"
	"strconv"

	"waypost"
)

// standingIn is a version that people are in.
type standingIn struct {
	Version           int
	Standing, Waiting int64
	Nodes             []standingAt
}

// standingAt is who stands at a node of a version, and where they could go on.
type standingAt struct {
	node
	Standing, Waiting int64
	To                string // the node of the other version; "" if they stay
	There             bool   // the other version has a node of this id
	Changed           bool   // and it says something else there
}

// Stays is how many cannot be moved from here now: they do not wait.
func (s standingAt) Stays() int64 { return s.Standing - s.Waiting }

// versionsSearched is how many versions are searched for people, the newest first.
const versionsSearched = 20

// people are the versions before one that people are in, the newest first.
func (v *visit) people(journeyID string, before int) ([]standingIn, error) {
	found := make([]standingIn, max(0, min(before-1, versionsSearched)))
	var calls []func() error
	for i := range found {
		calls = append(calls, func() (err error) {
			found[i], err = v.standingIn(journeyID, before-1-i)
			return err
		})
	}
	if err := together(calls...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(s standingIn) bool { return s.Standing == 0 }), nil
}

// standingIn reads who stands where in a version.
func (v *visit) standingIn(journeyID string, version int) (standingIn, error) {
	s, err := v.gateway.statistics(v.r.Context(), journeyID, url.Values{"version": {strconv.Itoa(version)}})
	in := standingIn{Version: version}
	for _, n := range s.Nodes {
		if n.Standing > 0 {
			in.Nodes = append(in.Nodes, standingAt{node: node{ID: n.NodeID}, Standing: n.Standing, Waiting: n.Waiting})
		}
		in.Standing, in.Waiting = in.Standing+n.Standing, in.Waiting+n.Waiting
	}
	return in, err
}

// migratePage moves people from one version to another.
type migratePage struct {
	Head     journeyHead
	Versions []standingIn // that people could leave
	From, To int
	In       standingIn
	Targets  []option // the nodes of the version that they go on in
	Review   bool
	Matched  int64 // of a review
	Moved    int64 // that were ordered to move before; 0: the page has just been opened
	Left     int64 // of them, who has not gone over yet
	Faults   []waypost.Detail
}

// GoneOver is how many of those who were ordered to move have gone on in the other version.
func (p migratePage) GoneOver() int64 { return max(p.Moved-p.Left, 0) }

func (v *visit) migration() error {
	data, err := v.loadMigration()
	if err != nil {
		return err
	}
	return v.renderMigration(data)
}

func (v *visit) renderMigration(data migratePage) error {
	live := 0
	if data.Moved > 0 && data.Left > 0 {
		live = 2
	}
	h := data.Head
	return v.renderJourney(page{Name: "migrate", Title: v.t("migrate.title", "name", h.Journey.Name), Back: &link{Path: h.At + "/versions", Text: h.Journey.Name}, Live: live, Data: data}, h)
}

// loadMigration reads who could move, and what the form or the URL says of it.
func (v *visit) loadMigration() (data migratePage, err error) {
	ctx := v.r.Context()
	if data.Head, err = v.loadHead(ctx); err != nil {
		return data, err
	}
	j, said := data.Head.Journey, v.r.FormValue
	data.Moved, _ = strconv.ParseInt(said("moved"), 10, 64)
	if data.Moved <= 0 { // else nobody chooses where they come from any more
		if data.Versions, err = v.people(j.ID, j.PublishedVersion+1); err != nil {
			return data, err
		}
	}
	data.To = j.PublishedVersion
	if n, err := strconv.Atoi(said("to")); err == nil {
		data.To = n
	}
	for _, s := range data.Versions {
		if data.From == 0 && s.Version != data.To {
			data.From = s.Version
		}
	}
	if n, err := strconv.Atoi(said("from")); err == nil {
		data.From = n
	}
	if data.From == 0 || data.From == data.To {
		return data, nil
	}
	return data, v.loadBoth(&data)
}

// loadBoth reads the two versions of a migration.
func (v *visit) loadBoth(data *migratePage) error {
	ctx, id := v.r.Context(), data.Head.Journey.ID
	var from, to version
	var d difference
	err := together(func() (err error) {
		data.In, err = v.standingIn(id, data.From)
		return err
	}, func() (err error) {
		from, err = v.gateway.version(ctx, id, data.From)
		return err
	}, func() (err error) {
		to, err = v.gateway.version(ctx, id, data.To)
		return err
	}, func() (err error) {
		d, err = v.gateway.diff(ctx, id, strconv.Itoa(data.From), strconv.Itoa(data.To))
		return err
	})
	if err != nil {
		return err
	}
	before, err := define(from.Definition)
	if err != nil {
		return err
	}
	after, err := define(to.Definition)
	if err != nil {
		return err
	}
	data.Head.Definition = after
	data.Targets = after.options()
	for i := range data.In.Nodes {
		s := &data.In.Nodes[i]
		s.node = before.node(s.ID)
		s.There = after.node(s.ID).Type != ""
		for _, c := range d.Changes {
			s.Changed = s.Changed || s.There && c.NodeID == s.ID && !slices.Contains([]string{"label", "note", "next", "onTimeout", "onMissed"}, c.Member)
		}
		if s.Waiting == 0 {
			continue
		}
		if s.There {
			s.To = s.ID
		}
		if said, given := v.r.Form["node."+s.ID]; given {
			s.To = said[0]
		}
		if s.To != "" {
			data.Left += s.Waiting
		}
	}
	return nil
}

// nodeMap maps each node that people leave to the one that they go on at.
func (p migratePage) nodeMap() map[string]string {
	nodes := map[string]string{}
	for _, s := range p.In.Nodes {
		if s.To != "" {
			nodes[s.ID] = s.To
		}
	}
	return nodes
}

// Target is what people call the node that somebody goes on at.
func (p migratePage) Target(id string) string { return p.Head.Definition.title(id) }

// migrate takes the form: it says what would move, and moves it once that is confirmed.
func (v *visit) migrate() error {
	data, err := v.loadMigration()
	if err != nil {
		return err
	}
	nodes, id := data.nodeMap(), data.Head.Journey.ID
	step := v.r.PostFormValue("step")
	if len(nodes) == 0 || step == "change" {
		return v.renderMigration(data)
	}
	done, err := v.gateway.migrate(v.r.Context(), id, data.From, data.To, nodes, step != "move")
	if data.Faults = detailsOf(err); len(data.Faults) > 0 {
		return v.renderMigration(data)
	}
	if err != nil {
		return err
	}
	if step != "move" {
		data.Review, data.Matched = true, done.Matched
		return v.renderMigration(data)
	}
	v.flash("ok", v.t("migrate.done", "n", done.Moved, "to", data.To))
	query := url.Values{"from": {strconv.Itoa(data.From)}, "to": {strconv.Itoa(data.To)}, "moved": {strconv.FormatInt(done.Moved, 10)}}
	for node, to := range nodes {
		query.Set("node."+node, to)
	}
	return v.redirect(data.Head.At+"/migrate", query)
}

// affected lists the nodes at which people stand in the published versions of a journey, and whether
// its draft has these nodes.
func (v *visit) affected(h journeyHead) ([]standingIn, error) {
	found, err := v.people(h.Journey.ID, h.Journey.PublishedVersion+1)
	if err != nil {
		return nil, err
	}
	d, err := define(h.Journey.Draft)
	if err != nil {
		return nil, err
	}
	var calls []func() error
	for i := range found {
		calls = append(calls, func() error {
			published, err := v.gateway.version(v.r.Context(), h.Journey.ID, found[i].Version)
			if err != nil {
				return err
			}
			before, err := define(published.Definition)
			for k := range found[i].Nodes {
				s := &found[i].Nodes[k]
				s.node = before.node(s.ID)
				s.There = d.node(s.ID).Type != ""
			}
			return err
		})
	}
	return found, together(calls...)
}
