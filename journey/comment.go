package journey

import (
	"maps"
	"slices"
	"unicode/utf8"

	"waypost"
)

// Comments are what people have written beside the members of an object, in its text as
// YAML. The object is a definition, a node, or an item of a list of theirs. A comment's key is
// the path of what it stands at, within the object, such as next, params.text, tags[0] or
// goal.when; the object itself is "". A journey runs without them.
type Comments map[string]Comment

// Comment is the comment of one place: lines without their #.
type Comment struct {
	Above  string `json:"above,omitempty"`
	Beside string `json:"beside,omitempty"` // one line
	Below  string `json:"below,omitempty"`  // behind the last of a list or an object
}

// comments checks the comments of an object.
func (c *checker) comments(path string, of Comments) {
	if path != "" {
		path += "."
	}
	path += "comments"
	for _, at := range slices.Sorted(maps.Keys(of)) {
		if utf8.RuneCountInString(at) > MaxCommentPath {
			c.p.Add(waypost.DetailTooLong, path, "a path has at most %d characters", MaxCommentPath)
			continue
		}
		text := of[at]
		checkText(&c.p, path+"."+at+".above", text.Above, MaxComment, "\t\n")
		checkText(&c.p, path+"."+at+".beside", text.Beside, MaxComment, "\t")
		checkText(&c.p, path+"."+at+".below", text.Below, MaxComment, "\t\n")
	}
}

// allComments checks all comments of the definition.
func (c *checker) allComments() {
	b := &c.d.body
	c.comments("", b.Comments)
	for i := range b.Entry {
		c.comments(element("entry", i), b.Entry[i].Comments)
	}
	for i := range b.ExitOn {
		c.comments(element("exitOn", i), b.ExitOn[i].Comments)
	}
	for i, n := range b.Nodes {
		path := element("nodes", i)
		c.comments(path, n.Comments)
		for j := range n.Events {
			c.comments(path+"."+element("events", j), n.Events[j].Comments)
		}
		for j := range n.Arms {
			c.comments(path+"."+element("arms", j), n.Arms[j].Comments)
		}
		for j := range n.Cases {
			c.comments(path+"."+element("cases", j), n.Cases[j].Comments)
		}
	}
}

// uncommented is a list whose items have no comments; at is where an item has them.
func uncommented[T any](list []T, at func(*T) *Comments) []T {
	list = slices.Clone(list)
	for i := range list {
		*at(&list[i]) = nil
	}
	return list
}
