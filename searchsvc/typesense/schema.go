package typesense

import (
	"strings"

	"github.com/typesense/typesense-go/v3/typesense/api"
)

// separators end words beside blanks and line feeds: white space and all ASCII
// punctuation but + and #, which are part of words such as C++ and C#.
const separators = "\t\r\v\f!\"$%&'()*,-./:;<=>?@[\\]^_`{|}~"

// schema is the collection that articles are kept in. Members of a document that
// it does not name are kept and returned, but not indexed.
func schema(name string) *api.CollectionSchema {
	yes, no := true, false
	stored := func(name string) api.Field {
		return api.Field{Name: name, Type: "string", Index: &no, Optional: &yes}
	}
	newest := "published_at"
	symbols := []string{"+", "#"}
	split := strings.Split(separators, "")
	return &api.CollectionSchema{
		Name: name,
		Fields: []api.Field{
			{Name: "name", Type: "string"},
			{Name: "content", Type: "string"},
			{Name: "beginnings", Type: "string"},
			{Name: "characters", Type: "string"},
			{Name: "tenant_key", Type: "string"},
			{Name: "access_level", Type: "int32"},
			{Name: "published", Type: "bool"},
			{Name: newest, Type: "int64"},
			{Name: "channels", Type: "string[]"},
			stored("tenant_id"),
			stored("identifier"),
			stored("frontend_url"),
		},
		DefaultSortingField: &newest,
		SymbolsToIndex:      &symbols,
		TokenSeparators:     &split,
	}
}
