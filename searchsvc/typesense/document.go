package typesense

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"waypost"
	"waypost/searchsvc"
)

// document is an article as the collection holds it.
type document struct {
	ID          string   `json:"id"` // the document's key
	TenantKey   string   `json:"tenant_key,omitempty"`
	TenantID    string   `json:"tenant_id"`
	Name        string   `json:"name"` // its tokens
	Identifier  string   `json:"identifier"`
	Content     string   `json:"content"`      // its tokens
	AccessLevel int      `json:"access_level"` // the least that may see it
	Published   bool     `json:"published"`
	PublishedAt int64    `json:"published_at"` // unix milliseconds
	FrontendURL string   `json:"frontend_url"`
	Channels    []string `json:"channels"` // their ids

	Beginnings string `json:"beginnings"` // of the words of the name
	Characters string `json:"characters"` // of the runs in name and content

	NameText    string `json:"name_text"`
	ContentText string `json:"content_text"`

	// Members of the article that do not follow from those above; left out where they do.
	Stage     waypost.Stage `json:"stage,omitempty"`      // if not release
	ArticleID string        `json:"article_id,omitempty"` // if it is not the key
	OwnLevel  *int          `json:"own_level,omitempty"`  // if a channel's is higher
	// Sections are the channels, if they are more than ids.
	Sections []waypost.Channel `json:"sections,omitempty"`
}

// markKey is the key of the document that holds a collection's mark. No article has it:
// their keys are numbers.
const markKey = "mark"

// markDocument holds a collection's mark. No search finds it, for its tenant key is none
// that tenantKey gives.
type markDocument struct {
	document
	// Mark is a text in JSON. The schema does not name it: it is kept, and not indexed.
	Mark int64 `json:"mark,string"`
}

func newMark(number int64) markDocument {
	return markDocument{document: document{ID: markKey, TenantKey: markKey, Channels: []string{}}, Mark: number}
}

// newDocument encodes names and contents as tokens of our own; what equals the default is left out, and
// read back as the default.
func newDocument(d searchsvc.Document) document {
	seen := map[string]bool{} // characters of runs
	out := document{
		ID:          d.Key,
		TenantKey:   tenantKey(d.Stage, d.TenantID),
		TenantID:    d.TenantID,
		Name:        encodeName(d.Name, seen),
		Identifier:  d.Identifier,
		Content:     encode(d.Content, seen),
		AccessLevel: d.VisibleFrom(),
		Published:   d.Published,
		PublishedAt: d.PublishedAt.UnixMilli(),
		FrontendURL: d.FrontendURL,
		Channels:    make([]string, len(d.Channels)),
		Beginnings:  beginnings(d.Name),
		NameText:    d.Name,
		ContentText: d.Content,
	}
	var characters tokenText
	for _, character := range sortedKeys(seen) {
		characters.add(exact(character))
	}
	out.Characters = characters.String()
	if d.Stage != waypost.StageRelease {
		out.Stage = d.Stage
	}
	if d.ID != d.Key {
		out.ArticleID = d.ID
	}
	if d.AccessLevel != out.AccessLevel {
		out.OwnLevel = &d.AccessLevel
	}
	for i, c := range d.Channels {
		out.Channels[i] = c.ID
		if c != (waypost.Channel{ID: c.ID}) {
			out.Sections = d.Channels
		}
	}
	return out
}

// article gives back what newDocument was given.
func (d document) article() searchsvc.Document {
	out := searchsvc.Document{
		Key:   d.ID,
		Stage: cmp.Or(d.Stage, waypost.StageRelease),
		Article: waypost.Article{
			ID:          cmp.Or(d.ArticleID, d.ID),
			TenantID:    d.TenantID,
			Name:        d.NameText,
			Identifier:  d.Identifier,
			Content:     d.ContentText,
			AccessLevel: d.AccessLevel,
			Published:   d.Published,
			FrontendURL: d.FrontendURL,
			Channels:    make([]waypost.Channel, len(d.Channels)),
			PublishedAt: time.UnixMilli(d.PublishedAt).UTC(),
		},
	}
	if d.OwnLevel != nil {
		out.AccessLevel = *d.OwnLevel
	}
	for i, id := range d.Channels {
		out.Channels[i] = waypost.Channel{ID: id}
	}
	copy(out.Channels, d.Sections)
	return out
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
