select id, summary from {{ ref('tickets') }} where urgency >= 4
