"""The backend of an open-source Spark session."""
