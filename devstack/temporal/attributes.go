package temporal

import (
	"fmt"
	"maps"
	"slices"

	"go.temporal.io/api/enums/v1"
)

// SearchAttributes are the search attributes that the namespace starts with
// (docs/contract.md, "In the Temporal Web UI").
func SearchAttributes() map[string]enums.IndexedValueType {
	return map[string]enums.IndexedValueType{
		"WaypostJourney": enums.INDEXED_VALUE_TYPE_KEYWORD,
		"WaypostWebhook": enums.INDEXED_VALUE_TYPE_KEYWORD,
		"WaypostOrg":     enums.INDEXED_VALUE_TYPE_KEYWORD,
		"WaypostStage":   enums.INDEXED_VALUE_TYPE_KEYWORD,
		"WaypostNode":    enums.INDEXED_VALUE_TYPE_KEYWORD,
		"WaypostLead":    enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		"WaypostOutcome": enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	}
}

// columns are where Temporal's table of workflows has the attributes, by the columns'
// names: the first ones of each type, which keep their indexes. Temporal itself would
// take any.
func columns(attributes map[string]enums.IndexedValueType) map[string]string {
	named := make(map[string]string, len(attributes))
	taken := map[enums.IndexedValueType]int{}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		kind := attributes[name]
		taken[kind]++
		named[fmt.Sprintf("%s%02d", kind, taken[kind])] = name
	}
	return named
}
