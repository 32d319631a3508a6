package temporal

import "go.temporal.io/api/enums/v1"

// SearchAttributes are those that the namespace starts with (contract, chapter 6,
// "In the Temporal Web UI").
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
